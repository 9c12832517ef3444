//! The ports' contract, on the server itself and through pgbouncer.

use helve_core::ports::Ledger;
use helve_testkit::{Pooler, Postgres, conformance};
use std::sync::Arc;

use crate::support::set_up;

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_on_postgresql_keeps_the_contract() {
    let server = Postgres::start();
    conformance::check_ledger(|setup| -> Arc<dyn Ledger> { set_up(server.database(), setup) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_behind_a_pooler_in_transaction_mode_keeps_the_contract() {
    let server = Postgres::start();
    let pooler = Pooler::start(&server);
    conformance::check_ledger(|setup| -> Arc<dyn Ledger> {
        set_up(pooler.before(&server.database()), setup)
    })
    .await;
}
