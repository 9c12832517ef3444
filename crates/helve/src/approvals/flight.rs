//! Approved calls that run because somebody came back for what became of them.
//!
//! Such a call runs once, in a task of its own: whoever asks meanwhile waits with the others, and whoever
//! goes away takes nothing back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_core::{Approval, ApprovalId, Call, Outcome};
use tokio::sync::watch;

use crate::pipeline::{self, Origin};
use crate::runs::parse;
use crate::runtime::Parts;

/// The calls that run now.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<ApprovalId, watch::Receiver<Option<Outcome>>>>);

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<ApprovalId, watch::Receiver<Option<Outcome>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the call ends that runs now by an approval, if one does.
    pub(super) async fn end_of(&self, id: ApprovalId) -> Option<Outcome> {
        let running = self.lock().get(&id).cloned();
        ended(running?).await
    }

    /// How the call ends that a question was about, which begins now unless it has begun.
    pub(super) async fn join(parts: &Arc<Parts>, approval: &Approval) -> Option<Outcome> {
        let running = {
            let mut flights = parts.flights.lock();
            match flights.get(&approval.id) {
                Some(running) => running.clone(),
                None => {
                    let (tell, running) = watch::channel(None);
                    flights.insert(approval.id, running.clone());
                    tokio::spawn(fly(Arc::clone(parts), approval.id, call_of(approval), tell));
                    running
                }
            }
        };
        ended(running).await
    }
}

async fn fly(parts: Arc<Parts>, id: ApprovalId, call: Call, tell: watch::Sender<Option<Outcome>>) {
    // Taken out of the list however this ends, or it would be waited for forever.
    let _landed = Landing(&parts, id);
    let outcome = pipeline::run(&parts, call, Origin::Approved(id)).await;
    tell.send_replace(Some(outcome));
}

struct Landing<'p>(&'p Parts, ApprovalId);

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.0.flights.lock().remove(&self.1);
    }
}

/// None where its task is gone without a word.
async fn ended(mut running: watch::Receiver<Option<Outcome>>) -> Option<Outcome> {
    running.wait_for(Option::is_some).await.ok()?.clone()
}

fn call_of(approval: &Approval) -> Call {
    let mut call = Call::new(&*approval.tool, parse(&approval.arguments)).by(Arc::clone(&approval.caller));
    call.idempotency_key = approval.idempotency_key.clone();
    call
}
