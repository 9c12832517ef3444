//! Runs that wait for a person, and a journal that fails when they say so: it keeps what it refuses and
//! writes it later.

use helve::CallId;
use helve::ports::Holder;
use helve::run::{OnCrash, Undo};
use helve::runs::RunError;
use helve::template::Template;
use tokio::sync::Semaphore;

use super::*;

/// How many more writes there is room for.
#[derive(Default)]
struct Room(Mutex<Option<u32>>);

impl Room {
    fn for_more(&self, writes: u32) {
        *self.0.lock().unwrap() = Some(writes);
    }

    fn for_all(&self) {
        *self.0.lock().unwrap() = None;
    }

    fn take(&self) -> Result<(), helve::ports::JournalError> {
        match &mut *self.0.lock().unwrap() {
            Some(0) => return Err(helve::ports::JournalError::new("the disk is full")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }
}

/// A trip whose second step needs approval and then stops before a gate.
struct Trip {
    inner: Arc<VolatileLedger>,
    room: Arc<Room>,
    runtime: Runtime,
    witness: Witness,
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Trip {
    fn new(on_crash: OnCrash) -> Self {
        let inner = Arc::new(VolatileLedger::default());
        let (witness, room) = (Witness::default(), Arc::new(Room::default()));
        let (reached, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let asked = Arc::clone(&room);
        let fault = move |boundary| if boundary == Boundary::Before { asked.take() } else { Ok(()) };
        let ledger = Arc::new(FaultyLedger::new(inner.clone(), Arc::new(fault)).keeping());
        let mut trip = Self { inner, room, runtime: Runtime::builder().build(), witness, reached, open };
        trip.runtime = trip.on(ledger, on_crash);
        trip
    }

    /// As in another process, where the disk is not full.
    fn elsewhere(&self) -> Runtime {
        self.on(self.inner.clone(), OnCrash::Resume)
    }

    fn on(&self, ledger: Arc<dyn Ledger>, on_crash: OnCrash) -> Runtime {
        let (reached, open, witness) = (self.reached.clone(), self.open.clone(), self.witness.clone());
        let send = self.witness.tool("send").handler(move |arguments, _| {
            let (reached, open) = (reached.clone(), open.clone());
            witness.0.lock().unwrap().push(arguments);
            async move {
                reached.add_permits(1);
                open.acquire().await.unwrap().forget();
                Ok(json!("sent"))
            }
        });
        let arguments = Template::parse(json!({ "to": "unbefore" })).unwrap();
        let undo = Undo::Tool { tool: "unbefore".to_owned(), arguments };
        let harmless = |name: &str| self.witness.tool(name).risk(Risk::Low);
        let tools = [harmless("before").undo(undo), harmless("unbefore"), send, harmless("after")];
        let builder = Runtime::builder().ledger(ledger);
        let runtime = tools.into_iter().fold(builder, |builder, tool| builder.tool(tool).unwrap()).build();
        let steps = ["before", "send", "after"].map(|tool| Step::of(tool).arguments(json!({ "to": tool })));
        let trip = steps.into_iter().fold(compose::sequence("trip"), |trip, step| trip.step(step));
        let trip = trip.description("A trip.").on_error(OnError::Stop).define(|tool| tool.on_crash(on_crash));
        runtime.registry().register(Layer::Project, trip.build(runtime.registry()).unwrap()).unwrap();
        runtime
    }

    /// One that has asked, and could not say any more that it waits.
    async fn left_asking(on_crash: OnCrash) -> (Self, CallId, ApprovalId) {
        for writes in 0..20 {
            let trip = Self::new(on_crash);
            trip.room.for_more(writes);
            let outcome = trip.runtime.call(Call::new("trip", json!({})).by(bot())).await;
            let asked = trip.elsewhere().approvals().list(ApprovalQuery::pending()).await.unwrap();
            if let [asked] = &asked[..] {
                assert_eq!(code(&outcome), "journal_unavailable");
                assert_eq!(trip.holder(outcome.call_id).await, Some(Holder::Us));
                return (trip, outcome.call_id, asked.id);
            }
        }
        panic!("it never asked");
    }

    async fn approve(&self, id: ApprovalId) {
        self.elsewhere().approvals().decide(id, Decision::approve(), &ada()).await.unwrap();
    }

    async fn holder(&self, run: CallId) -> Option<Holder> {
        let open = self.inner.open_runs(None, 10).await.unwrap();
        open.iter().find(|open| open.run == run).map(|open| open.holder)
    }

    /// While the step is at work, nobody else is.
    async fn is_at_it_alone(&self, run: CallId) {
        self.reached.acquire().await.unwrap().forget();
        assert_eq!(self.holder(run).await, Some(Holder::Us), "the ledger says who is at it");
        self.open.add_permits(2);
        let again = self.elsewhere().resume_run(run, None).await;
        assert!(matches!(again, Err(RunError::Busy(_) | RunError::Ended(_))), "{again:?}");
    }

    fn went(&self) -> Vec<String> {
        self.witness.seen().iter().map(|seen| seen["to"].as_str().unwrap().to_owned()).collect()
    }
}

async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("in time")
}

#[tokio::test]
async fn a_left_run_whose_waiting_was_written_later_goes_on_once() {
    let (trip, run, asked) = Trip::left_asking(OnCrash::Resume).await;
    trip.room.for_all();
    trip.approve(asked).await;
    let runtime = trip.runtime.clone();
    let going_on = tokio::spawn(async move { runtime.recover_left().await.unwrap() });
    within(trip.is_at_it_alone(run)).await;
    let recovered = within(going_on).await.unwrap();
    assert!(matches!(&recovered[..], [one] if one.run == run), "{recovered:?}");
    assert_eq!(trip.went(), ["before", "send", "after"]);
    assert_eq!(trip.holder(run).await, None);
}

#[tokio::test]
async fn a_left_run_that_is_resumed_before_its_waiting_is_written_goes_on_once() {
    let (trip, run, asked) = Trip::left_asking(OnCrash::Resume).await;
    trip.approve(asked).await;
    trip.room.for_all();
    let runtime = trip.runtime.clone();
    let going_on = tokio::spawn(async move { runtime.resume_run(run, None).await.unwrap() });
    within(trip.is_at_it_alone(run)).await;
    assert!(within(going_on).await.unwrap().is_success());
    assert_eq!(trip.went(), ["before", "send", "after"]);
}

#[tokio::test]
async fn of_all_in_a_process_who_take_up_a_left_run_one_does() {
    for _ in 0..20 {
        let (trip, run, asked) = Trip::left_asking(OnCrash::Resume).await;
        trip.approve(asked).await;
        trip.room.for_all();
        trip.open.add_permits(10);
        let (runtime, approvals) = (&trip.runtime, trip.runtime.approvals());
        let (by_hand, left, decided) =
            tokio::join!(runtime.resume_run(run, None), runtime.recover_left(), approvals.resume_decided());
        let begun = usize::from(by_hand.is_ok()) + left.unwrap().len() + decided.unwrap().len();
        assert_eq!(begun, 1);
        assert_eq!(trip.went(), ["before", "send", "after"]);
    }
}

#[tokio::test]
async fn a_left_run_that_waits_after_all_is_left_to_whom_it_waits_for() {
    for on_crash in [OnCrash::Resume, OnCrash::RollBack, OnCrash::Ask] {
        let (trip, run, asked) = Trip::left_asking(on_crash).await;
        trip.room.for_all();
        assert!(trip.runtime.recover_left().await.unwrap().is_empty(), "nothing is decided");
        assert_eq!(trip.holder(run).await, Some(Holder::Person));
        assert_eq!(trip.went(), ["before"], "it was not cut short: it waits");
        trip.approve(asked).await;
        trip.open.add_permits(1);
        assert!(trip.runtime.resume_run(run, None).await.unwrap().is_success());
        assert_eq!(trip.went(), ["before", "send", "after"]);
    }
}

#[tokio::test]
async fn what_somebody_asked_for_is_no_crash_when_the_journal_fails_before_it_begins() {
    let mut left = 0;
    for writes in 0..10 {
        let trip = Trip::new(OnCrash::RollBack);
        let outcome = trip.runtime.call(Call::new("trip", json!({})).by(bot())).await;
        let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
        trip.approve(pending.approval_id).await;
        trip.open.add_permits(1);
        trip.room.for_more(writes);
        let _ = trip.runtime.resume_run(outcome.call_id, None).await;
        trip.room.for_all();
        left += usize::from(trip.holder(outcome.call_id).await == Some(Holder::Us));
        if trip.went().len() > 1 {
            // It had begun, so that what the tool says of crashes counts.
            break;
        }
        trip.runtime.recover_left().await.unwrap();
        trip.runtime.approvals().resume_decided().await.unwrap();
        assert_eq!(trip.went(), ["before", "send", "after"], "after {writes} writes");
    }
    assert!(left > 0, "it was never left");
}
