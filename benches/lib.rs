//! What all benchmarks share: the allocator that the `helve` binary has.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
