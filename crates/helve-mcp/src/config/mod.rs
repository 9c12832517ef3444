//! (begins here)
