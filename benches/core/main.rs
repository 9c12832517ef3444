//! What a call costs. `cargo bench -p helve-benches --bench core`
//!
//! Everything is measured in one run and printed next to a floor of the same run: the machines we
//! measure on are noisy, so only ratios mean much.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

use helve_benches as _;

mod calls;
mod measure;
mod registry;

fn main() {
    // `cargo test --benches` runs this too; a smoke run is enough there.
    let scale = if std::env::args().any(|arg| arg == "--bench") { 1.0 } else { 0.01 };
    println!("{:<58} {:>12} {:>12} {:>10}", "", "wall µs/op", "CPU µs/op", "× floor");
    calls::measure_calls(scale);
    registry::measure_registry(scale);
}
