//! Finding and testing the servers of an account before it is connected.

pub mod discover_dav;
