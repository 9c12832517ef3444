//! Examples only: `cargo run -p helve-examples --example typed-tools`.
