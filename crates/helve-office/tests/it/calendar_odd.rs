//! A calendar server that tells attendees, or fails at a write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use helve::BoxFuture;
use helve_office::account::{Collection, Expected, Fault, Object, ObjectChanges, ObjectStore, PutFault};
use helve_office::availability::{Interval, Part};
use helve_office::embedded::EmbeddedObjects;
use helve_office::text::Address;

use crate::calendar_world::{World, account};

/// The embedded store as a server that tells attendees, and fails at a write of the test's choosing.
struct Odd {
    inner: EmbeddedObjects,
    schedules: bool,
    fails_at: usize,
    mishap: Mishap,
    writes: AtomicUsize,
}

#[derive(Clone, Copy)]
pub(crate) enum Mishap {
    /// Nothing is done, and that is known.
    Down,
    /// It is done, and nobody is told.
    AnswerLost,
    /// It is not done, and nobody is told.
    RequestLost,
}

impl ObjectStore for Odd {
    fn collections(&self) -> BoxFuture<'_, Result<Vec<Collection>, Fault>> {
        self.inner.collections()
    }

    fn changes<'a>(
        &'a self,
        at: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ObjectChanges, Fault>> {
        self.inner.changes(at, since)
    }

    fn get<'a>(&'a self, href: &'a str) -> BoxFuture<'a, Result<Object, Fault>> {
        self.inner.get(href)
    }

    fn put<'a>(
        &'a self,
        href: &'a str,
        bytes: Bytes,
        expected: Expected<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, PutFault>> {
        if self.writes.fetch_add(1, Ordering::SeqCst) + 1 == self.fails_at {
            let mishap = self.mishap;
            let lost = || Fault::Unknown("the answer was lost".to_owned());
            return Box::pin(async move {
                Err(PutFault::Fault(match mishap {
                    Mishap::Down => Fault::Unreachable("the server is down".to_owned()),
                    Mishap::RequestLost => lost(),
                    Mishap::AnswerLost => {
                        self.inner.put(href, bytes, expected).await?;
                        lost()
                    }
                }))
            });
        }
        self.inner.put(href, bytes, expected)
    }

    fn delete<'a>(&'a self, href: &'a str, version: &'a str) -> BoxFuture<'a, Result<(), PutFault>> {
        self.inner.delete(href, version)
    }

    fn new_href(&self, collection: &str, uid: &str) -> String {
        self.inner.new_href(collection, uid)
    }

    fn free_busy<'a>(
        &'a self,
        _: &'a Address,
        _: Interval,
    ) -> BoxFuture<'a, Result<Option<Vec<Part>>, Fault>> {
        Box::pin(async { Ok(None) })
    }

    fn schedules(&self) -> bool {
        self.schedules
    }
}

pub(crate) fn odd(world: &World, schedules: bool, fails_at: usize) {
    failing(world, schedules, fails_at, Mishap::Down);
}

pub(crate) fn failing(world: &World, schedules: bool, fails_at: usize, mishap: Mishap) {
    let odd = Odd { inner: world.store.clone(), schedules, fails_at, mishap, writes: AtomicUsize::new(0) };
    let objects: Arc<dyn ObjectStore> = Arc::new(odd);
    world.office.set_accounts([Arc::new(account(&objects, None))]);
}

/// The world's store as a server that tells attendees.
pub(crate) fn telling(world: &World) -> Arc<dyn ObjectStore> {
    let (inner, writes) = (world.store.clone(), AtomicUsize::new(0));
    Arc::new(Odd { inner, schedules: true, fails_at: 0, mishap: Mishap::Down, writes })
}
