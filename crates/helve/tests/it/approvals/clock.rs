//! A clock that jumps.

use super::*;

const DAY: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

#[tokio::test]
async fn a_clock_that_jumps_by_a_day_neither_lengthens_a_question_nor_revives_one() {
    let bench = Bench::new();
    let began = bench.clock.now();
    let waiting = bench.ask(send("ada")).await.approval_id;
    let granted = bench.ask(send("ben")).await.approval_id;
    bench.approve(granted).await;
    bench.clock.set(began - DAY);
    let late = bench.decide(waiting, Decision::approve()).await;
    assert!(matches!(late, Err(DecideError::Already(_))), "{late:?}");
    for to in ["ada", "ben"] {
        assert_eq!(code(&bench.runtime.call(send(to)).await), "approval_expired", "{to}");
    }
    // From here on it is as on any other day.
    let anew = bench.ask(send("ada")).await.approval_id;
    bench.approve(anew).await;
    bench.clock.set(began + DAY);
    let late = bench.runtime.call(send("ada")).await;
    assert_eq!(code(&late), "approval_expired");
    let why = late.error().unwrap().message();
    assert!(why.contains("was approved by local user") && why.contains("but not made in time"), "{why}");
    for time in [began - DAY, began - DAY / 2] {
        bench.clock.set(time);
        bench.ask(send("ada")).await;
        assert_eq!(bench.get(anew).await.state, ApprovalState::Expired);
    }
    assert_eq!(bench.witness.seen(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_clock_that_jumps_by_a_day_runs_no_key_twice_and_frees_no_limit() {
    let bench = Bench::with(|tool| tool.risk(Risk::Low), |_| {});
    let began = bench.clock.now();
    for time in [began, began - DAY, began + DAY] {
        bench.clock.set(time);
        assert!(bench.runtime.call(send("ada").idempotency_key("k")).await.is_success());
    }
    assert_eq!(bench.witness.seen().len(), 1);
    let rule = helve::limit::LimitRule::for_tools("send").rate("1/1h".parse().unwrap());
    let bench = Bench::with(|tool| tool.risk(Risk::Low), |settings| settings.limits = vec![rule]);
    assert!(bench.runtime.call(send("ada")).await.is_success());
    for time in [began, began - DAY, began + DAY] {
        bench.clock.set(time);
        assert_eq!(code(&bench.runtime.call(send("ben")).await), "rate_limit");
    }
    assert_eq!(bench.witness.seen().len(), 1);
}
