//! Connections: how many there may be, and which one goes when there is no more room.
//!
//! A connection begins as a stranger's. Once the guard has let a caller in on it, it is known, and counts
//! among those of the principal that came. INVARIANT: there is always room for a newcomer, because the stranger who
//! keeps a place without using it goes: strangers have a quarter of all places, and those who have shown a
//! key keep theirs whatever strangers do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::visitor::Visitor;

/// How long a stranger may take before others are preferred: to send a head, or to be answered.
const FRESH: Duration = Duration::from_secs(1);

/// The connections that there are.
pub(crate) struct Connections {
    table: Arc<Table>,
    /// What the server waits for when it stops.
    pub(crate) tasks: TaskTracker,
    /// The server stops.
    pub(crate) stopping: CancellationToken,
}

struct Table {
    room: Room,
    began: Instant,
    inner: Mutex<Inner>,
}

/// How many of each sort there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    strangers: usize,
    calling: usize,
    /// Of one caller.
    own_calling: usize,
    /// Who decides has places of their own: no caller stands between a person and a denial.
    deciding: usize,
}

impl Room {
    fn of(connections_max: usize) -> Self {
        let strangers = (connections_max / 4).max(1);
        let deciding = (connections_max / 8).max(1);
        let calling = connections_max.saturating_sub(strangers + deciding).max(1);
        Self { strangers, calling, own_calling: calling.div_ceil(2), deciding }
    }
}

#[derive(Default)]
struct Inner {
    number: u64,
    strangers: BTreeMap<u64, Arc<Spot>>,
    /// How many connections each has who has shown a key.
    known: HashMap<SlotOwner, usize>,
}

/// Whose connection it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SlotOwner {
    Caller(Option<String>),
    Decider(Option<String>),
}

impl SlotOwner {
    fn of(visitor: &Visitor) -> Self {
        let name = visitor.person().principal.clone();
        match visitor {
            Visitor::Caller(_) => Self::Caller(name),
            Visitor::Decider(_) => Self::Decider(name),
        }
    }

    fn is_decider(&self) -> bool {
        matches!(self, Self::Decider(_))
    }
}

/// What is known of one connection.
struct Spot {
    peer: IpAddr,
    /// Since when it waits for a head or for its answer, in milliseconds since the server began.
    since_ms: AtomicU64,
    /// Whether a request has come and is not answered yet.
    is_asking: AtomicBool,
    is_known: AtomicBool,
    /// Cancelled when it has to go.
    evicted: CancellationToken,
}

/// A connection, as what outlives HTTP on it needs to know it. Every request carries it, and its place is
/// free once nobody has it any more.
#[derive(Clone)]
pub(crate) struct ConnectionSlot {
    place: Arc<Place>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

struct Place {
    table: Arc<Table>,
    number: u64,
    spot: Arc<Spot>,
    known: Mutex<Option<SlotOwner>>,
}

impl Connections {
    pub(crate) fn new(connections_max: usize, stopping: CancellationToken) -> Self {
        let room = Room::of(connections_max);
        let table = Table { room, began: Instant::now(), inner: Mutex::default() };
        Self { table: Arc::new(table), tasks: TaskTracker::new(), stopping }
    }

    /// A place for a newcomer. Where strangers have no more, one of theirs goes.
    pub(crate) fn enter(&self, peer: IpAddr) -> ConnectionSlot {
        let table = Arc::clone(&self.table);
        let spot = Arc::new(Spot {
            peer,
            since_ms: AtomicU64::new(table.now_ms()),
            is_asking: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            evicted: CancellationToken::new(),
        });
        let number = {
            let mut inner = table.lock();
            while inner.strangers.len() >= table.room.strangers && inner.evict(table.now_ms()) {}
            inner.number += 1;
            let number = inner.number;
            inner.strangers.insert(number, Arc::clone(&spot));
            number
        };
        let place = Arc::new(Place { table, number, spot, known: Mutex::default() });
        ConnectionSlot { place, tasks: self.tasks.clone(), stopping: self.stopping.clone() }
    }

    /// Lets some strangers go, because the system has no more connections to give. Several at once: the
    /// next newcomers may be many.
    pub(crate) fn make_room(&self) {
        let now = self.table.now_ms();
        let mut inner = self.table.lock();
        for _ in 0..inner.strangers.len().div_ceil(4) {
            inner.evict(now);
        }
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Inner {
    /// Lets a stranger go: one of the address that has the most of them, and of these the one that has kept
    /// its place longest without using it. False where there is none.
    fn evict(&mut self, now_ms: u64) -> bool {
        let mut of_peer: HashMap<IpAddr, usize> = HashMap::new();
        for spot in self.strangers.values() {
            *of_peer.entry(spot.peer).or_default() += 1;
        }
        let rank = |spot: &Spot| (Reverse(of_peer.get(&spot.peer)), spot.patience(now_ms), spot.since());
        let victim = self.strangers.iter().min_by_key(|(_, spot)| rank(spot)).map(|(number, _)| *number);
        let gone = victim.and_then(|number| self.strangers.remove(&number));
        gone.as_ref().inspect(|spot| spot.evicted.cancel()).is_some()
    }

    fn has_room(&self, room: Room, who: &SlotOwner) -> bool {
        let of_kind =
            |(one, count): (&SlotOwner, &usize)| (one.is_decider() == who.is_decider()).then_some(*count);
        let all: usize = self.known.iter().filter_map(of_kind).sum();
        match who {
            SlotOwner::Decider(_) => all < room.deciding,
            SlotOwner::Caller(_) => {
                all < room.calling && self.known.get(who).copied().unwrap_or(0) < room.own_calling
            }
        }
    }
}

/// Who is kept for how long, the shortest first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Patience {
    /// No head has come for a while.
    Idle,
    /// A request without a key takes a while.
    Slow,
    Fresh,
}

impl Spot {
    fn since(&self) -> u64 {
        self.since_ms.load(Ordering::Relaxed)
    }

    fn patience(&self, now_ms: u64) -> Patience {
        match u128::from(now_ms.saturating_sub(self.since())) < FRESH.as_millis() {
            true => Patience::Fresh,
            false if self.is_asking.load(Ordering::Relaxed) => Patience::Slow,
            false => Patience::Idle,
        }
    }
}

impl ConnectionSlot {
    /// A request has come.
    pub(crate) fn note_request(&self) {
        self.note(true);
    }

    /// It is answered.
    pub(crate) fn note_answer(&self) {
        self.note(false);
    }

    fn note(&self, is_asking: bool) {
        let spot = &self.place.spot;
        // Of who is known nobody asks.
        if !spot.is_known.load(Ordering::Relaxed) {
            spot.since_ms.store(self.place.table.now_ms(), Ordering::Relaxed);
            spot.is_asking.store(is_asking, Ordering::Relaxed);
        }
    }

    /// A caller was let in on it. A principal with its full share of connections keeps this one as long as
    /// strangers have room.
    pub(crate) fn recognize(&self, visitor: &Visitor) {
        let Place { table, number, spot, known } = &*self.place;
        if spot.is_known.load(Ordering::Relaxed) {
            return;
        }
        let who = SlotOwner::of(visitor);
        let mut inner = table.lock();
        if !inner.has_room(table.room, &who) || inner.strangers.remove(number).is_none() {
            return;
        }
        *inner.known.entry(who.clone()).or_default() += 1;
        spot.is_known.store(true, Ordering::Relaxed);
        *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(who);
    }

    /// Waits until it has to go.
    pub(crate) async fn evicted(&self) {
        self.place.spot.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let known = self.known.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let mut inner = self.table.lock();
        match known {
            None => drop(inner.strangers.remove(&self.number)),
            Some(who) => {
                if let Some(count) = inner.known.get_mut(&who) {
                    *count -= 1;
                    if *count == 0 {
                        inner.known.remove(&who);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve::Caller;

    const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const FAR: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

    fn is_gone(slot: &ConnectionSlot) -> bool {
        slot.place.spot.evicted.is_cancelled()
    }

    fn caller(name: &str) -> Visitor {
        Visitor::Caller(Arc::new(Caller::principal(name)))
    }

    fn gone(connections: &[ConnectionSlot]) -> Vec<usize> {
        (0..connections.len()).filter(|at| is_gone(&connections[*at])).collect()
    }

    /// As if it had waited for so long.
    fn waited(connections: &Connections, slot: &ConnectionSlot, ms: u64) {
        // The server has run for a while.
        let now = connections.table.now_ms();
        slot.place.spot.since_ms.store(now.saturating_sub(ms), Ordering::Relaxed);
    }

    fn connections(max: usize) -> Connections {
        let mut connections = Connections::new(max, CancellationToken::new());
        let table = Arc::get_mut(&mut connections.table).unwrap();
        table.began = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        connections
    }

    #[test]
    fn places_are_divided_and_nobody_is_without_one() {
        assert_eq!(Room::of(2_048), Room { strangers: 512, calling: 1_280, own_calling: 640, deciding: 256 });
        for max in 0..10 {
            let Room { strangers, calling, own_calling, deciding } = Room::of(max);
            assert!(strangers > 0 && calling > 0 && own_calling > 0 && deciding > 0, "{max}");
        }
    }

    #[test]
    fn whoever_sends_nothing_goes_first_then_whoever_is_slow_and_the_oldest_of_each() {
        let all = connections(16);
        let held: Vec<_> = (0..4).map(|_| all.enter(NEAR)).collect();
        held[0].note_request();
        waited(&all, &held[0], 30_000);
        waited(&all, &held[1], 5_000);
        waited(&all, &held[2], 9_000);
        for expected in [vec![2], vec![1, 2], vec![0, 1, 2], vec![0, 1, 2, 3]] {
            std::mem::forget(all.enter(NEAR));
            assert_eq!(gone(&held), expected);
        }
    }

    #[test]
    fn the_address_with_the_most_makes_room() {
        let all = connections(16);
        let far = all.enter(FAR);
        waited(&all, &far, 50_000);
        let near: Vec<_> = (0..30).map(|_| all.enter(NEAR)).collect();
        assert!(!is_gone(&far) && gone(&near).len() == 27, "{:?}", gone(&near));
    }

    #[test]
    fn whoever_has_shown_a_key_stays_up_to_their_share() {
        let all = connections(16);
        let eves: Vec<_> =
            (0..8).map(|_| all.enter(NEAR)).inspect(|slot| slot.recognize(&caller("eve"))).collect();
        let ada = all.enter(NEAR);
        ada.recognize(&caller("ada"));
        let crowd: Vec<_> = (0..50).map(|_| all.enter(NEAR)).collect();
        assert!(!is_gone(&ada));
        assert_eq!(gone(&eves), [5, 6, 7], "five are eve's share of ten");
        assert_eq!(gone(&crowd).len(), 46);
        drop((eves, ada, crowd));
        let inner = all.table.lock();
        assert!(inner.strangers.is_empty() && inner.known.is_empty(), "every place is free again");
    }
}
