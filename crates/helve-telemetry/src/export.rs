//! Sends spans in the background: in batches, with bounds, and without anybody waiting for it.

use std::time::Duration;

use helve_core::trace::TracedCall;
use helve_net::{Client, HeaderName, HeaderValue, Method, NetError, Redirects, Request, Response};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::options::TelemetryOptions;
use crate::spans;
use crate::wire::{ExportRequest, ExportResponse, Resource, ResourceSpans, Scope, ScopeSpans, Span, text};

/// How long spans wait for others to be sent with.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// Most spans that are sent at once.
const BATCH_SPANS_MAX: usize = 2_048;
/// Most bytes of spans that are sent at once, but for the last call's.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// How long the collector has to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How often a batch is sent that the collector cannot take at the time.
const TRIES: u32 = 3;
/// How long before a batch is sent again, the first time.
const RETRY_WAIT: Duration = Duration::from_millis(500);
/// The longest that a collector can ask us to wait.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);

/// What the queue holds.
pub(crate) enum Message {
    /// A call that has ended.
    Call(Box<TracedCall>),
    /// A caller waits until everything before this is sent, or cannot be.
    Flush(oneshot::Sender<()>),
}

/// Collects spans from the queue and sends them in batches.
pub(crate) struct Exporter {
    options: TelemetryOptions,
    client: Client,
    waiting: mpsc::Receiver<Message>,
    collector: Collector,
}

/// What the collector last did, so that it is complained of once.
#[derive(Clone, Copy, PartialEq)]
enum Collector {
    Unknown,
    Takes,
    Refuses,
}

/// Whether a batch that is not taken is sent again.
#[derive(Clone, Copy, PartialEq)]
enum Patience {
    Retry,
    /// One attempt only, because a caller waits for it.
    Once,
}

/// Why a batch was not taken.
enum Refused {
    /// Later it might be.
    ForNow { reason: String, wait: Option<Duration> },
    /// It never will be.
    ForGood { reason: String },
}

impl Exporter {
    pub(crate) fn new(options: TelemetryOptions, client: Client, waiting: mpsc::Receiver<Message>) -> Self {
        Self { options, client, waiting, collector: Collector::Unknown }
    }

    /// Sends what comes, until nobody can send more.
    pub(crate) async fn run(mut self) {
        while let Some(first) = self.waiting.recv().await {
            let (spans, asked) = self.gather(first).await;
            let patience = if asked.is_some() { Patience::Once } else { Patience::Retry };
            if !spans.is_empty() {
                self.send(spans, patience).await;
            }
            if let Some(asked) = asked {
                // Who has stopped waiting need not know.
                let _ = asked.send(());
            }
        }
    }

    /// The next batch, and who waits for it.
    async fn gather(&mut self, first: Message) -> (Vec<Span>, Option<oneshot::Sender<()>>) {
        let until = Instant::now() + BATCH_WAIT;
        let (mut spans, mut bytes, mut next) = (Vec::new(), 0, Some(first));
        loop {
            match next {
                Some(Message::Call(call)) => {
                    let of_call = spans::of(&call);
                    bytes += of_call.iter().map(Span::encoded_len).sum::<usize>();
                    spans.extend(of_call);
                }
                Some(Message::Flush(asked)) => return (spans, Some(asked)),
                None => return (spans, None),
            }
            if spans.len() >= BATCH_SPANS_MAX || bytes >= BATCH_BYTES_MAX {
                return (spans, None);
            }
            next = tokio::time::timeout_at(until, self.waiting.recv()).await.unwrap_or(None);
        }
    }

    async fn send(&mut self, spans: Vec<Span>, patience: Patience) {
        let count = spans.len();
        let body = self.message(spans).encode_to_vec();
        let mut wait = RETRY_WAIT;
        for attempt in 1..=TRIES {
            match self.post(body.clone()).await {
                Ok(()) => return self.took(),
                Err(Refused::ForNow { wait: asked, .. })
                    if patience == Patience::Retry && attempt < TRIES =>
                {
                    tokio::time::sleep(asked.unwrap_or(wait).min(RETRY_WAIT_MAX)).await;
                    wait *= 2;
                }
                Err(Refused::ForNow { reason, .. } | Refused::ForGood { reason }) => {
                    return self.refused(count, &reason);
                }
            }
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), Refused> {
        let mut request = Request::new(Method::POST, self.options.url.clone())
            .header(
                HeaderName::from_static("content-type"),
                HeaderValue::from_static("application/x-protobuf"),
            )
            .body(body)
            .timeout(ANSWER_TIMEOUT)
            .response_bytes_max(ANSWER_BYTES_MAX)
            // A token goes to the collector and to nobody it names.
            .redirects(Redirects::Stop);
        request.headers.extend(self.options.headers.clone());
        match self.client.fetch(request).await {
            Ok(response) => heed(&response),
            Err(error) => Err(sort(&error)),
        }
    }

    fn message(&self, spans: Vec<Span>) -> ExportRequest {
        let version = env!("CARGO_PKG_VERSION");
        let attributes = vec![
            text("service.name", &*self.options.service_name),
            text("service.version", version),
            text("telemetry.sdk.name", "helve"),
            text("telemetry.sdk.language", "rust"),
            text("telemetry.sdk.version", version),
        ];
        let scope = Scope { name: "helve".to_owned(), version: version.to_owned() };
        ExportRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource { attributes }),
                scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
            }],
        }
    }

    fn took(&mut self) {
        if self.collector == Collector::Refuses {
            tracing::info!("the collector takes traces again");
        }
        self.collector = Collector::Takes;
    }

    fn refused(&mut self, spans: usize, reason: &str) {
        if self.collector == Collector::Refuses {
            tracing::debug!(spans, reason, "traces were not taken");
        } else {
            // An error, so that it is seen without asking: nobody watches a collector that hears nothing.
            tracing::error!(spans, "traces are not taken: {reason}; calls run all the same");
        }
        self.collector = Collector::Refuses;
    }
}

/// What an answer means. Its text is not repeated: it is the collector's, and may be anything.
fn heed(response: &Response) -> Result<(), Refused> {
    let status = response.status;
    match status.as_u16() {
        200..=299 => {
            let answer = ExportResponse::decode(&*response.body).unwrap_or_default();
            let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
            if rejected > 0 {
                tracing::debug!(rejected, "the collector did not take all spans");
            }
            Ok(())
        }
        429 | 502 | 503 | 504 => {
            let wait = response.header("retry-after").and_then(|seconds| seconds.parse().ok());
            let reason = format!("the collector answers {status}");
            Err(Refused::ForNow { reason, wait: wait.map(Duration::from_secs) })
        }
        _ => Err(Refused::ForGood { reason: format!("the collector answers {status}") }),
    }
}

fn sort(error: &NetError) -> Refused {
    let reason = error.to_string();
    match error {
        NetError::Connect { .. } | NetError::Timeout { .. } | NetError::Dns { .. } => {
            Refused::ForNow { reason, wait: None }
        }
        _ => Refused::ForGood { reason },
    }
}
