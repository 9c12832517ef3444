//! Looks for requests to stop a run of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::runtime::Engine;

/// How often to look. Runs of this process are stopped at once; only other processes take this way.
const PAUSE: Duration = Duration::from_millis(250);

/// Whether a task is looking.
#[derive(Default)]
pub(crate) struct Watch(AtomicBool);

impl Watch {
    /// Makes sure that a task is looking while there are runs.
    pub(crate) fn begin(engine: &Arc<Engine>) {
        if !engine.runs.watch.0.load(Ordering::Relaxed) && !engine.runs.watch.0.swap(true, Ordering::Relaxed)
        {
            tokio::spawn(look(Arc::clone(engine)));
        }
    }
}

async fn look(engine: Arc<Engine>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        if engine.runs.is_empty() {
            break;
        }
        match engine.ledger.cancel_requests().await {
            Ok(runs) => runs
                .into_iter()
                .filter_map(|run| engine.runs.get(run))
                .for_each(|run| run.cancellation.cancel()),
            Err(error) => tracing::debug!(%error, "cannot see whether runs should be stopped"),
        }
    }
    engine.runs.watch.0.store(false, Ordering::Relaxed);
}
