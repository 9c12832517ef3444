//! What runs because a caller came back for what became of a question: an approved call, or a run that waited.
//!
//! It runs once, in its own task: callers that ask meanwhile wait with the others, and a caller that goes away
//! takes nothing back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_core::ports::JournalError;
use helve_core::{ApprovalId, CallId, Outcome};
use tokio::sync::watch;

/// What runs now.
#[derive(Default)]
pub(crate) struct SingleFlights(Mutex<HashMap<Flight, Waiting>>);

/// What a caller came back for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flight {
    /// The call that a question was about.
    Call(ApprovalId),
    /// The run that a question belongs to, whichever of its questions it was.
    Run(CallId),
}

/// How it ended.
pub(super) type Landed = Result<Outcome, JournalError>;

type Waiting = watch::Receiver<Option<Landed>>;

impl SingleFlights {
    fn lock(&self) -> MutexGuard<'_, HashMap<Flight, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it runs now.
    pub(super) fn has(&self, flight: Flight) -> bool {
        self.lock().contains_key(&flight)
    }

    /// How it ends. It begins now unless it has begun. None where nobody can tell.
    pub(super) async fn join<F>(self: &Arc<Self>, flight: Flight, begin: impl FnOnce() -> F) -> Option<Landed>
    where
        F: Future<Output = Landed> + Send + 'static,
    {
        let mut running = {
            let mut flights = self.lock();
            match flights.get(&flight) {
                Some(running) => running.clone(),
                None => {
                    let (tell, running) = watch::channel(None);
                    flights.insert(flight, running.clone());
                    tokio::spawn(fly(Arc::clone(self), flight, begin(), tell));
                    running
                }
            }
        };
        running.wait_for(Option::is_some).await.ok()?.clone()
    }
}

async fn fly(
    flights: Arc<SingleFlights>,
    flight: Flight,
    running: impl Future<Output = Landed>,
    tell: watch::Sender<Option<Landed>>,
) {
    // Taken out of the list however this ends, or it would be waited for forever.
    let _landing = Landing(&flights, flight);
    tell.send_replace(Some(running.await));
}

struct Landing<'f>(&'f SingleFlights, Flight);

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}
