//! Answers what a server asks, a few questions at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::link::Receiver;
use crate::message::{Message, Request};

/// How many questions of a server are open at a time.
const QUESTIONS_MAX: usize = 32;

/// What comes on a link without being an answer.
#[derive(Clone)]
pub(crate) struct Incoming {
    pub(crate) receiver: Arc<dyn Receiver>,
    places: Arc<Semaphore>,
}

impl Incoming {
    pub(crate) fn new(receiver: Arc<dyn Receiver>) -> Self {
        Self { receiver, places: Arc::new(Semaphore::new(QUESTIONS_MAX)) }
    }

    /// Has a question answered in its own task; `send` takes the answer. A server that floods
    /// us with questions gets no answer to those above the bound: answering would be its work too.
    pub(crate) fn asked<F>(
        &self,
        request: Request,
        of: Option<i64>,
        send: impl FnOnce(Message) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let Request { id, method, params } = request;
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.receiver.noise("too many questions at once; one was not answered");
            return;
        };
        let answer = self.receiver.asked(method, params, of);
        tokio::spawn(async move {
            send(Message::answer(id, answer.await)).await;
            drop(place);
        });
    }
}
