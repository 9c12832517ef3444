//! API keys: kept without their secret, taken back for good, codes used once.

use std::sync::Arc;

use helve_core::identity::{CODE_TTL, Key, KeyState, Purpose};
use helve_core::ports::{Clock, Ledger};
use helve_core::{Access, Caller, KeyId, PrincipalKind};

use super::{Setup, within};
use crate::clock::ManualClock;

/// Runs every check, each on a new ledger.
pub async fn check_identity(new_ledger: &impl Fn(Setup) -> Arc<dyn Ledger>) {
    let new = || {
        let (setup, clock) = Setup::new();
        (new_ledger(setup), clock)
    };
    a_key_reads_back_as_it_was_kept(new()).await;
    what_is_taken_back_stays_so(new()).await;
    a_code_is_used_once(new()).await;
    changes_are_counted_and_uses_are_not(new()).await;
}

const WORKS: &str = "the ledger works";

type Bench = (Arc<dyn Ledger>, Arc<ManualClock>);

fn by() -> Arc<Caller> {
    Arc::new(Caller::principal("ada"))
}

async fn made(ledger: &dyn Ledger, clock: &ManualClock, purpose: Purpose) -> Key {
    let (key, _) = Key::generate("ci", purpose, "ada", clock.now());
    within(ledger.create_key(Box::new(key.clone()), by())).await.expect(WORKS);
    key
}

async fn a_key_reads_back_as_it_was_kept((ledger, clock): Bench) {
    let (mut key, _) = Key::generate("reviewer", Purpose::Call, "ada", clock.now());
    key.kind = PrincipalKind::Agent;
    key.roles = vec!["auditor".to_owned()];
    key.access = Access::Only(vec!["files/*".to_owned()]);
    within(ledger.create_key(Box::new(key.clone()), by())).await.expect(WORKS);
    let second = made(&*ledger, &clock, Purpose::Decide).await;
    assert_eq!(within(ledger.key(key.id)).await.expect(WORKS), Some(key.clone()));
    let mut all: Vec<_> = within(ledger.keys()).await.expect(WORKS).into_iter().map(|one| one.id).collect();
    all.sort();
    let mut expected = [key.id, second.id];
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!(within(ledger.key(KeyId::new(clock.now()))).await.expect(WORKS), None);
}

async fn what_is_taken_back_stays_so((ledger, clock): Bench) {
    let key = made(&*ledger, &clock, Purpose::Call).await;
    let at = clock.now();
    let revoked = within(ledger.revoke_key(key.id, by(), at)).await.expect(WORKS).expect("it is there");
    assert_eq!((revoked.state_at(at), revoked.revoked_by.as_deref()), (KeyState::Revoked, Some("ada")));
    let other = Arc::new(Caller::principal("eve"));
    let again = within(ledger.revoke_key(key.id, other, at)).await.expect(WORKS).expect("it is there");
    assert_eq!(again, revoked);
    assert_eq!(within(ledger.revoke_key(KeyId::new(at), by(), at)).await.expect(WORKS), None);
}

async fn a_code_is_used_once((ledger, clock): Bench) {
    let code = made(&*ledger, &clock, Purpose::SignIn).await;
    let at = clock.now();
    let (first, second) =
        tokio::join!(within(ledger.redeem_code(code.id, at)), within(ledger.redeem_code(code.id, at)));
    assert_eq!([first.expect(WORKS), second.expect(WORKS)].into_iter().flatten().count(), 1);
    let late = made(&*ledger, &clock, Purpose::SignIn).await;
    assert_eq!(within(ledger.redeem_code(late.id, at + CODE_TTL)).await.expect(WORKS), None);
    let revoked = made(&*ledger, &clock, Purpose::SignIn).await;
    within(ledger.revoke_key(revoked.id, by(), at)).await.expect(WORKS);
    assert_eq!(within(ledger.redeem_code(revoked.id, at)).await.expect(WORKS), None);
    let no_code = made(&*ledger, &clock, Purpose::Decide).await;
    assert_eq!(within(ledger.redeem_code(no_code.id, at)).await.expect(WORKS), None);
}

async fn changes_are_counted_and_uses_are_not((ledger, clock): Bench) {
    let before = within(ledger.key_changes()).await.expect(WORKS);
    let key = made(&*ledger, &clock, Purpose::Call).await;
    let after = within(ledger.key_changes()).await.expect(WORKS);
    assert!(after > before);
    within(ledger.touch_keys(vec![(key.id, clock.now())])).await.expect(WORKS);
    assert_eq!(
        within(ledger.key(key.id)).await.expect(WORKS).expect("it is there").used_at,
        Some(clock.now())
    );
    assert_eq!(within(ledger.key_changes()).await.expect(WORKS), after);
    within(ledger.revoke_key(key.id, by(), clock.now())).await.expect(WORKS);
    assert!(within(ledger.key_changes()).await.expect(WORKS) > after);
}
