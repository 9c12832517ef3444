//! Bodies of requests: read in bounded size, time and memory, and nobody waits for the bodies of others.
//! Messages on WebSockets take the same turns (`ws`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use helve::Caller;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::state::ServerState;
use crate::visitor::Visitor;

/// What of a body everybody may hold at any time. Nearly every body is smaller, and connections, which
/// are counted, bound what all of them take together.
pub(crate) const FREE_BYTES: usize = 64 << 10;
/// Larger bodies that are read at once.
const LARGE_MAX: usize = 64;
/// Larger bodies of one principal that are read at once.
const LARGE_PER_PRINCIPAL_MAX: usize = LARGE_MAX / 4;
/// How long one more may wait for its turn.
const TURN_WAIT: Duration = Duration::from_secs(5);

/// Turns to read large bodies. Who decides has their own: no caller stands between a person and a denial.
pub(crate) struct Reading {
    calling: Pool,
    deciding: Pool,
}

impl Default for Reading {
    fn default() -> Self {
        Self { calling: Pool::new(), deciding: Pool::new() }
    }
}

struct Pool {
    all: Arc<Semaphore>,
    /// Of principals who have a turn or wait for one. Principals without a name share with all of these.
    own: Mutex<HashMap<Option<String>, Arc<Semaphore>>>,
}

/// Room for a large body until this is dropped.
pub(crate) type Turn = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Pool {
    fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(LARGE_MAX)), own: Mutex::default() }
    }

    fn own(&self, principal: Option<&str>) -> Arc<Semaphore> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|_, turns| Arc::strong_count(turns) > 1);
        let turns = own.entry(principal.map(str::to_owned));
        Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(LARGE_PER_PRINCIPAL_MAX))))
    }

    /// A turn for this principal: first one of theirs, so that they wait for themselves and not in the
    /// way of others.
    async fn turn(&self, principal: Option<&str>) -> Result<Turn, BodyError> {
        let (own, all) = (self.own(principal), Arc::clone(&self.all));
        let turn = async { Ok((own.acquire_owned().await?, all.acquire_owned().await?)) };
        let waited: Result<Result<Turn, tokio::sync::AcquireError>, _> =
            tokio::time::timeout(TURN_WAIT, turn).await;
        waited.map_err(|_| BodyError::Busy)?.map_err(|_| BodyError::Busy)
    }
}

impl Reading {
    /// A turn for the caller that came in; strangers have one share together.
    async fn turn(&self, visitor: Option<&Visitor>) -> Result<Turn, BodyError> {
        let pool = match visitor {
            Some(Visitor::Decider(_)) => &self.deciding,
            Some(Visitor::Caller(_)) | None => &self.calling,
        };
        pool.turn(visitor.and_then(|visitor| visitor.person().principal.as_deref())).await
    }

    /// A turn for what a caller sends over a connection that lasts.
    pub(crate) async fn calling(&self, caller: &Caller) -> Result<Turn, BodyError> {
        self.calling.turn(caller.principal.as_deref()).await
    }
}

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the body broke off, or is not in the form that its head says")]
    BrokeOff,
    #[error("the body came too slowly")]
    TooSlow,
    #[error("too many large bodies are being read; send this again in a moment")]
    Busy,
}

impl BodyError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BrokeOff => StatusCode::BAD_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl ServerState {
    /// The body of the caller that came in.
    pub(crate) async fn read_body(&self, visitor: Option<&Visitor>, body: Body) -> Result<Bytes, BodyError> {
        let bytes_max = self.config.body_bytes_max;
        let length = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if length > bytes_max {
            return Err(BodyError::TooLarge(bytes_max));
        }
        let read = async {
            let mut turn = None;
            let mut whole = BytesMut::with_capacity(length.min(FREE_BYTES));
            let mut parts = body.into_data_stream();
            while let Some(part) = parts.next().await {
                let part = part.map_err(|_| BodyError::BrokeOff)?;
                let length = whole.len() + part.len();
                if length > bytes_max {
                    return Err(BodyError::TooLarge(bytes_max));
                }
                if length > FREE_BYTES && turn.is_none() {
                    turn = Some(self.reading.turn(visitor).await?);
                }
                whole.extend_from_slice(&part);
            }
            Ok(whole.freeze())
        };
        tokio::time::timeout(self.config.body_timeout, read).await.map_err(|_| BodyError::TooSlow)?
    }
}
