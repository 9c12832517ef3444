//! The server against clients that others wrote, and against those that mean harm.

mod conformance;
