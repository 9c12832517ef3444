//! Helve's calls as OpenTelemetry traces, sent over OTLP/HTTP.
//!
//! - `spans` turns a call that has ended into a span and one more for each stage;
//! - `wire` has the few messages of OTLP that this takes;
//! - `export` sends them in the background, through the guarded client.
//!
//! OpenTelemetry's own SDK is not used: its batches are sent from a thread without tokio, which the
//! guarded client needs, and there is nothing to open and close here, because calls are told when
//! they have ended.

mod spans;
mod wire;

mod export;
pub mod options;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use helve_core::BoxFuture;
use helve_core::ports::Tracer;
use helve_core::trace::TracedCall;
use helve_net::Client;
use tokio::sync::{mpsc, oneshot};

use export::{Exporter, Message};
pub use options::{OptionsError, TelemetryOptions};

/// Most calls that wait to be sent. More are dropped, and counted.
const QUEUE_CALLS_MAX: usize = 2_048;

/// Tells a collector of calls. Nothing that goes wrong here reaches a call.
pub struct Telemetry {
    queue: mpsc::Sender<Message>,
    dropped: AtomicU64,
    ratio: f64,
    content: bool,
    /// What sends, until the first call starts it: there may be no tokio yet.
    idle: Mutex<Option<Exporter>>,
    started: AtomicBool,
}

impl Telemetry {
    /// Tells the collector of `options`, through `client`, which must be allowed to reach it.
    pub fn new(options: TelemetryOptions, client: Client) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE_CALLS_MAX);
        Self {
            queue,
            dropped: AtomicU64::new(0),
            ratio: options.sample_ratio,
            content: options.content,
            idle: Mutex::new(Some(Exporter::new(options, client, waiting))),
            started: AtomicBool::new(false),
        }
    }

    /// Starts sending, where that has not begun and there is a tokio to do it.
    fn start(&self) {
        if self.started.load(Ordering::Acquire) {
            return;
        }
        let Ok(handle) = tokio::runtime::Handle::try_current() else { return };
        if let Some(exporter) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take() {
            handle.spawn(exporter.run());
        }
        self.started.store(true, Ordering::Release);
    }
}

impl Tracer for Telemetry {
    fn samples(&self, trace_id: [u8; 16]) -> bool {
        // The end of an id is random, its beginning is the time.
        let [.., a, b, c, d, e, f, g, h] = trace_id;
        let place = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        (place as f64) < self.ratio * (u64::MAX as f64) || self.ratio >= 1.0
    }

    fn wants_content(&self) -> bool {
        self.content
    }

    fn ended(&self, call: Box<TracedCall>) {
        self.start();
        if self.queue.try_send(Message::Call(call)).is_err()
            && self.dropped.fetch_add(1, Ordering::Relaxed) == 0
        {
            tracing::warn!("calls come faster than the collector takes their traces; some are not told");
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.start();
            let (done, told) = oneshot::channel();
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                // Who sends is gone with its runtime, or has sent.
                let _ = told.await;
            }
        })
    }
}
