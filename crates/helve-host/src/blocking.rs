//! Runs what is asynchronous from code that is not.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

/// Runs a future to its end, or not: at the time limit it is left, even if it keeps every thread of
/// its own busy.
pub fn run_within<T: Send + 'static>(
    limit: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> io::Result<Option<T>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (sender, receiver) = mpsc::channel();
    runtime.spawn(async move {
        // Nobody hears it who has left.
        let _ = sender.send(future.await);
    });
    let heard = receiver.recv_timeout(limit).ok();
    runtime.shutdown_background();
    Ok(heard)
}
