//! Which calls are runs, by their entries.

use helve_core::run::StepKind;
use serde::Deserialize;

use super::record::step_kind;
use crate::chain::Kind;

/// Whether an entry of a call that is no part tells that the call is a run.
pub fn tells_of_a_run(kind: Option<Kind>, head: &[u8]) -> bool {
    match kind {
        Some(Kind::Started) => {
            serde_json::from_slice(head).is_ok_and(|head: StartGlance| head.facts.changes_world)
        }
        Some(Kind::Step) => step_kind(head).is_some_and(|kind| is_of_an_effect(&kind)),
        Some(
            Kind::Finished
            | Kind::Erased
            | Kind::Released
            | Kind::Unanchored
            | Kind::Accepted
            | Kind::Migrated
            | Kind::Vouched
            | Kind::Adopted
            | Kind::Spent
            | Kind::Keyed
            | Kind::Pruned,
        )
        | None => false,
    }
}

fn is_of_an_effect(kind: &StepKind) -> bool {
    matches!(
        kind,
        StepKind::Executed { .. }
            | StepKind::EffectApplied { .. }
            | StepKind::EffectSkipped { .. }
            | StepKind::EffectFailed { .. }
            | StepKind::EffectRolledBack { .. }
            | StepKind::RollbackFailed { .. }
    )
}

/// What of a start tells whether it is a run's.
#[derive(Deserialize)]
struct StartGlance {
    facts: FactsGlance,
}

#[derive(Deserialize)]
struct FactsGlance {
    changes_world: bool,
}
