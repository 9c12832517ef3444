//! The other process: this test binary, started again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use helve::approvals::{DecideError, Decider, Decision, Vouch};
use helve::ports::{Clock, Holder, Ledger, Runs};
use helve::record::Entry;
use helve::run::{Finding, PartState, StepKind, WaitingFor};
use helve::runs::{Resumption, RunError, Settlement};
use helve::{ApprovalId, ApprovalQuery, CallId, Outcome, Runtime, Status};
use helve_store::{Store, StoreOptions};
use helve_testkit::{FaultyLedger, ManualClock};
use serde::{Deserialize, Serialize};

use super::scenario::{Bench, Scenario};
use super::service::Remote;

const ORDER: &str = "HELVE_FAULTS_ORDER";

/// What a child is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) task: Task,
    pub(super) scenarios: Vec<Scenario>,
    pub(super) database: PathBuf,
    pub(super) world: SocketAddr,
    /// At which boundary of the journal it kills itself.
    pub(super) kill_at: Option<u64>,
    /// How far its clock is off.
    pub(super) clock_off_s: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Task {
    /// Run the scenarios in turn, as many as `from..to`, some at once.
    Run { from: u64, to: u64, at_once: usize },
    /// Take up what was left, telling the truth where somebody must.
    Recover,
}

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Killed,
    ByItself(Vec<Report>),
}

/// What a run came to, as far as the checks need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) run: CallId,
    pub(super) code: Option<String>,
    /// Calls of which nobody knows whether they had their effect, by the keys they had.
    pub(super) unknown: Vec<String>,
}

impl Report {
    pub(super) fn of_outcome(outcome: &Outcome) -> Self {
        Self::of(outcome.call_id, outcome)
    }

    fn of(run: CallId, outcome: &Outcome) -> Self {
        let unknown = outcome.parts.iter().filter(|part| part.state == PartState::Unknown);
        Self {
            run,
            code: outcome.error().map(|error| error.code().as_str().to_owned()),
            unknown: unknown.map(|part| format!("{run}/{}", part.path)).collect(),
        }
    }
}

impl Order {
    /// Starts a child and waits until it has ended.
    pub(super) fn carry_out(&self) -> Ended {
        self.start().wait()
    }

    #[expect(clippy::disallowed_methods, reason = "what survives a process takes a real one that dies")]
    pub(super) fn start(&self) -> Running {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::child::child", "--nocapture"])
            .env(ORDER, serde_json::to_string(self).unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running { child, order: self.clone() }
    }
}

pub(super) struct Running {
    child: std::process::Child,
    order: Order,
}

impl Running {
    pub(super) fn wait(self) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        let output = self.child.wait_with_output().unwrap();
        if output.status.signal() == Some(9) {
            return Ended::Killed;
        }
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{:?}\n{out}\n{err}", self.order);
        let reports = out.lines().filter_map(|line| line.split_once("report ")).map(|(_, json)| json);
        Ended::ByItself(reports.map(|json| serde_json::from_str(json).unwrap()).collect())
    }
}

/// Not a test: what the other process does.
#[test]
fn child() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let order: Order = serde_json::from_str(&order).unwrap();
    let executor =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for report in executor.block_on(order.obey()) {
        say(&report);
    }
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn say(report: &Report) {
    println!("report {}", serde_json::to_string(report).unwrap());
}

impl Order {
    async fn obey(&self) -> Vec<Report> {
        let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(self.clock_off_s);
        let clock: Arc<dyn Clock> = match self.clock_off_s {
            0 => Arc::new(helve::ports::SystemClock),
            _ => Arc::new(ManualClock::new(now)),
        };
        let mut options = StoreOptions::default();
        options.clock = Arc::clone(&clock);
        let store = Arc::new(Store::open(&self.database, options).unwrap());
        let ledger: Arc<dyn Ledger> = match self.kill_at {
            None => Arc::clone(&store) as _,
            Some(at) => Arc::new(killing(Arc::clone(&store) as _, at)),
        };
        let folder = self.database.parent().unwrap();
        let bench = Bench { ledger, remote: Remote(self.world), folder, clock };
        let runtime = bench.runtime(&self.scenarios);
        match self.task {
            Task::Run { from, to, at_once } => self.run(&runtime, from..to, at_once).await,
            Task::Recover => recover(&runtime, &*bench.ledger, bench.remote).await,
        }
    }

    async fn run(&self, runtime: &Runtime, numbers: std::ops::Range<u64>, at_once: usize) -> Vec<Report> {
        let calls = numbers.map(|number| async move {
            let scenario = self.scenarios[usize::try_from(number).unwrap() % self.scenarios.len()];
            let outcome = runtime.call(scenario.call(number)).await;
            Report::of_outcome(&approved(runtime, outcome).await)
        });
        futures_util::stream::iter(calls).buffer_unordered(at_once).collect().await
    }
}

/// Approves whatever a run waits for, until it has ended.
async fn approved(runtime: &Runtime, mut outcome: Outcome) -> Outcome {
    while let Status::Pending(pending) = &outcome.status {
        approve(runtime, pending.approval_id).await;
        outcome = runtime.resume_run(outcome.call_id, None).await.unwrap();
    }
    outcome
}

async fn approve(runtime: &Runtime, id: ApprovalId) {
    let person = Decider::vouched("person", Vouch::LocalUser);
    match runtime.approvals().decide(id, Decision::approve(), &person).await {
        Ok(_) | Err(DecideError::Already(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// A ledger that ends the process at a boundary, as hard as can be.
fn killing(inner: Arc<dyn Ledger>, at: u64) -> FaultyLedger {
    let passed = AtomicU64::new(0);
    FaultyLedger::new(
        inner,
        Arc::new(move |_| {
            if passed.fetch_add(1, Ordering::SeqCst) == at {
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                // Nothing more happens on this thread, however long the signal takes.
                loop {
                    std::thread::park();
                }
            }
            Ok(())
        }),
    )
}

/// Takes up what was left. Where nobody knows what became of a call, the world is asked.
pub(super) async fn recover(runtime: &Runtime, ledger: &dyn Ledger, remote: Remote) -> Vec<Report> {
    let mut reports = Vec::new();
    for one in runtime.recover().await.unwrap() {
        match one.resumption {
            Resumption::Ended(outcome) => reports.push(Report::of(one.run, &outcome)),
            Resumption::Waits(_) => {}
            Resumption::Failed(error) => panic!("{} cannot be resumed: {error}", one.run),
        }
    }
    // Several parts of one run may have been cut short, and each asks by itself.
    for _ in 0..64 {
        let mut every = ApprovalQuery::pending();
        every.limit = 10_000;
        for one in runtime.approvals().list(every).await.unwrap() {
            approve(runtime, one.id).await;
        }
        for one in runtime.approvals().resume_decided().await.unwrap() {
            match one.resumption {
                Resumption::Ended(outcome) => reports.push(Report::of(one.run, &outcome)),
                Resumption::Waits(_) => {}
                Resumption::Failed(error) => panic!("{} cannot go on: {error}", one.run),
            }
        }
        let open = ledger.open_runs(None, 10_000).await.unwrap();
        let waiting: Vec<_> = open.iter().filter(|run| run.holder == Holder::Person).collect();
        if waiting.is_empty() {
            return reports;
        }
        for open in waiting {
            let Some(settlement) = truth(ledger, open.run, remote).await else { continue };
            match runtime.resume_run(open.run, Some(settlement)).await {
                Ok(outcome) => {
                    reports.retain(|report| report.run != open.run);
                    reports.push(Report::of(open.run, &outcome));
                }
                // Another process was faster.
                Err(RunError::Busy(_) | RunError::Ended(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    panic!("runs wait for ever");
}

/// What became of the call that a run waits for.
async fn truth(ledger: &dyn Ledger, run: CallId, remote: Remote) -> Option<Settlement> {
    let history = Runs::history(ledger, run).await.unwrap();
    let asked = history.iter().rev().find_map(|entry| match entry {
        Entry::Step(step) => match step.kind {
            StepKind::Waiting { reason, .. } => Some((reason, step.call_id)),
            _ => None,
        },
        Entry::Started(_) | Entry::Finished(_) => None,
    });
    let (_, asked) = asked.filter(|(reason, _)| *reason != WaitingFor::Approval)?;
    let facts = history.iter().filter_map(Entry::facts).find(|facts| facts.call_id == asked)?;
    assert!(!facts.tool.starts_with("recall-"), "{asked} could have been asked, and a person is");
    let key = match (&facts.part, &facts.idempotency_key) {
        (Some(part), _) => format!("{}/{}", part.run, part.path),
        (None, Some(key)) => key.to_string(),
        (None, None) => asked.to_string(),
    };
    let call_id = Some(asked);
    Some(match remote.seen(&key).await.unwrap() {
        serde_json::Value::Null => {
            Settlement { call_id, answer: Finding::DidNotHappen, result: None, by: None }
        }
        result => Settlement { call_id, answer: Finding::Happened, result: Some(result), by: None },
    })
}
