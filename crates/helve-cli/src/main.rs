//! The `helve` binary.

fn main() {}
