//! Every phase with every event, and with every question.
//!
//! In the tables a phase is written as in [`name`]: `by ledger` and `by stop` say what halted it, `*` that the journal gets
//! a step of it, and `=` that the phase stays.

use super::*;

const EVENTS: &str = "
phase                      | written         | refused                    | stop, end | stop, leave               | stop, leave once written | waits                      | waits no more
new                        | running         | refused by ledger          | =         | refused by stop*          | =                        | waiting                    | =
running                    | =               | lost by ledger             | =         | lost by stop*             | lost by stop*            | waiting written            | =
waiting                    | waiting written | refused by ledger, waiting | =         | refused by stop, waiting* | =                        | =                          | new
waiting written            | =               | lost by ledger             | =         | lost by stop*             | lost by stop*            | =                          | running
refused by ledger          | lost by ledger  | =                          | =         | =                         | =                        | refused by ledger, waiting | =
refused by stop            | lost by stop    | =                          | =         | =                         | =                        | refused by stop, waiting   | =
refused by ledger, waiting | lost by ledger  | =                          | =         | =                         | =                        | =                          | refused by ledger
refused by stop, waiting   | lost by stop    | =                          | =         | =                         | =                        | =                          | refused by stop
lost by ledger             | =               | =                          | =         | =                         | =                        | =                          | =
lost by stop               | =               | =                          | =         | =                         | =                        | =                          | =
";

const QUESTIONS: &str = "
phase                      | new parts? | interrupted? | lost? | root ends               | unstarted root ends   | part ends      | open part ends
new                        | yes        | no           | no    | ends                    | ends                  | ends           | ends
running                    | yes        | no           | no    | ends                    | ends                  | ends           | ends
waiting                    | Waiting    | yes          | no    | waits                   | ends                  | ends           | waits
waiting written            | Waiting    | yes          | no    | waits                   | ends                  | ends           | waits
refused by ledger          | Halted     | yes          | no    | ends halted by ledger   | ends halted by ledger | left by ledger | left by ledger
refused by stop            | Halted     | yes          | no    | ends halted by stop     | ends halted by stop   | left by stop   | left by stop
refused by ledger, waiting | Halted     | yes          | no    | waits, halted by ledger | ends halted by ledger | left by ledger | left by ledger
refused by stop, waiting   | Halted     | yes          | no    | waits, halted by stop   | ends halted by stop   | left by stop   | left by stop
lost by ledger             | Halted     | yes          | yes   | left by ledger          | left by ledger        | left by ledger | left by ledger
lost by stop               | Halted     | yes          | yes   | left by stop            | left by stop          | left by stop   | left by stop
";

/// The cells of a table, without its head, and how many rows it has.
fn rows(table: &'static str) -> Vec<Vec<&'static str>> {
    let lines = table.trim().lines().skip(1);
    let rows: Vec<Vec<_>> = lines.map(|line| line.split('|').map(str::trim).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == 8), "a cell is missing");
    rows
}

fn waiting(call: u64) -> Waiting {
    let at = Timestamp::from_millisecond(call.try_into().unwrap()).unwrap();
    Waiting { reason: WaitingFor::Approval, call_id: CallId::first_at(at), pending: None }
}

fn halt(by: &str) -> Halt {
    match by {
        "ledger" => Halt::Ledger(JournalError::new("the disk is full")),
        _ => Halt::Stop(Arc::from("the operator")),
    }
}

fn by(halt: &Halt) -> &'static str {
    match halt {
        Halt::Ledger(_) => "by ledger",
        Halt::Stop(_) => "by stop",
    }
}

fn phase(name: &str) -> Phase {
    let (first, rest) = name.split_once(' ').unwrap_or((name, ""));
    let halted = || halt(rest.trim_start_matches("by ").trim_end_matches(", waiting"));
    match first {
        "new" => Phase::New,
        "running" => Phase::Running,
        "waiting" => Phase::Waiting { on: waiting(1), is_written: rest == "written" },
        "refused" => {
            Phase::Refused { halt: halted(), waiting: rest.ends_with("waiting").then(|| waiting(1)) }
        }
        "lost" => Phase::Lost(halted()),
        other => panic!("no phase is called {other}"),
    }
}

fn name(phase: &Phase) -> String {
    match phase {
        Phase::New => "new".to_owned(),
        Phase::Running => "running".to_owned(),
        Phase::Waiting { on: _, is_written: false } => "waiting".to_owned(),
        Phase::Waiting { on: _, is_written: true } => "waiting written".to_owned(),
        Phase::Refused { halt, waiting: None } => format!("refused {}", by(halt)),
        Phase::Refused { halt, waiting: Some(_) } => format!("refused {}, waiting", by(halt)),
        Phase::Lost(halt) => format!("lost {}", by(halt)),
        Phase::Over(was) => format!("over: {}", name(was)),
    }
}

/// The events in the order of the table's columns.
fn events() -> [Event; 7] {
    let stopped =
        |on_stop| Event::Stopped { by: Arc::from("the operator"), at: Timestamp::UNIX_EPOCH, on_stop };
    [
        Event::Written,
        Event::Refused(JournalError::new("the disk is full")),
        stopped(OnStop::End),
        stopped(OnStop::Leave),
        stopped(OnStop::LeaveOnceWritten),
        Event::Waits(waiting(2)),
        Event::WaitsNoMore,
    ]
}

fn conclusion(phase: &Phase, end_of: EndOf) -> String {
    match phase.conclude(end_of) {
        Conclusion::Ends => "ends".to_owned(),
        Conclusion::EndsHalted(halt) => format!("ends halted {}", by(&halt)),
        Conclusion::Waits(_, None) => "waits".to_owned(),
        Conclusion::Waits(_, Some(halt)) => format!("waits, halted {}", by(&halt)),
        Conclusion::Left(halt) => format!("left {}", by(&halt)),
    }
}

fn answers(phase: &Phase) -> Vec<String> {
    let yes_or_no = |yes| if yes { "yes" } else { "no" }.to_owned();
    let parts = phase.refuses_parts().map_or_else(|| "yes".to_owned(), |why| format!("{why:?}"));
    let ends = [EndOf::Root, EndOf::UnstartedRoot, EndOf::Part, EndOf::OpenPart];
    let told = [parts, yes_or_no(phase.is_interrupted()), yes_or_no(phase.is_lost())];
    told.into_iter().chain(ends.map(|end_of| conclusion(phase, end_of))).collect()
}

#[test]
fn every_event_leads_from_every_phase_to_the_one_in_the_table() {
    for row in rows(EVENTS) {
        for (event, expected) in events().into_iter().zip(&row[1..]) {
            let told = format!("{} with {event:?}", row[0]);
            let (next, write) = phase(row[0]).step(event);
            let star = if write.is_some() { "*" } else { "" };
            let expected = if *expected == "=" { row[0] } else { expected };
            assert_eq!(format!("{}{star}", name(&next)), expected, "{told}");
        }
    }
}

#[test]
fn every_phase_answers_what_the_table_says() {
    for row in rows(QUESTIONS) {
        assert_eq!(answers(&phase(row[0])), row[1..], "{}", row[0]);
    }
}

#[test]
fn the_tables_have_every_phase_that_events_lead_to() {
    let known: Vec<_> = rows(EVENTS).iter().map(|row| row[0]).collect();
    assert_eq!(known, rows(QUESTIONS).iter().map(|row| row[0]).collect::<Vec<_>>());
    for (row, event) in known.iter().flat_map(|row| events().map(|event| (row, event))) {
        let next = name(&phase(row).step(event).0);
        assert!(known.contains(&&*next), "{next} is in no table");
    }
}

#[test]
fn a_run_that_is_over_starts_nothing_writes_nothing_and_is_found_as_it_was() {
    for row in rows(EVENTS) {
        let (over, write) = phase(row[0]).step(Event::Over);
        assert!(over.is_over() && write.is_none());
        assert_eq!(
            answers(&over),
            answers(&phase(row[0])),
            "effects and undos that are at work go on as they would"
        );
        for (late, early) in events().into_iter().zip(events()) {
            let ((over, write), (was, _)) = (over.clone().step(late), phase(row[0]).step(early));
            assert_eq!(name(&over), format!("over: {}", name(&was)));
            assert!(write.is_none(), "nobody would write it");
        }
    }
}

#[test]
fn the_first_reason_stays() {
    let first = |phase: Phase| match phase.step(Event::Waits(waiting(2))).0.conclude(EndOf::Root) {
        Conclusion::Waits(on, _) => on.call_id,
        other => panic!("{other:?}"),
    };
    assert_eq!(first(phase("waiting")), waiting(1).call_id);
    assert_eq!(first(phase("refused by stop, waiting")), waiting(1).call_id);
}

#[test]
fn the_journal_hears_who_stopped_it_and_nothing_else() {
    for on_stop in [OnStop::Leave, OnStop::LeaveOnceWritten] {
        let event = Event::Stopped { by: Arc::from("the operator"), at: Timestamp::UNIX_EPOCH, on_stop };
        let (phase, write) = Phase::Running.step(event);
        let write = write.expect("the journal gets a step");
        assert_eq!(write.at, Timestamp::UNIX_EPOCH);
        assert!(matches!(write.kind, StepKind::Stopped { by } if by == "the operator"));
        let told = phase.halt().unwrap().error().to_string();
        assert!(told.ends_with("the operator stopped Helve"), "{told}");
    }
}
