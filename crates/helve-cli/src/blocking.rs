//! Runs what is asynchronous from a command, which is not.

/// Runs a future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(future);
    // A tool that cannot be stopped must not keep the process.
    runtime.shutdown_background();
    result
}
