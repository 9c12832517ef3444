//! Benchmarks only; see `benches/core`.
