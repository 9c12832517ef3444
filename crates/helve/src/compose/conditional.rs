//! The steps of the first branch whose condition holds.

use helve_core::{ErrorCode, ToolError};
use serde_json::{Map, Value, json};

use super::plan::{Make, Part, Way};
use super::run::Run;
use super::sequence::{Trail, run_steps};

pub(super) async fn run_conditional(
    run: &Run<'_>,
    decide: Option<&Part>,
    branches: &[Way],
    otherwise: Option<&[Part]>,
    output: Option<&Make>,
) -> Result<Value, ToolError> {
    let mut trail = Trail::default();
    if let Some(part) = decide {
        trail = decided(run, part).await?;
    }
    let (name, parts) = choose(run, &trail, branches, otherwise)?;
    trail.add("branch", json!(name));
    run.expect(parts.len());
    run_steps(run, parts, &mut trail).await?;
    if let Some(output) = output {
        return trail.output(run, output);
    }
    let result = trail.previous().cloned().unwrap_or_default();
    let (_, errors) = trail.into_parts();
    let mut answer = Map::from_iter([("branch".to_owned(), json!(name)), ("result".to_owned(), result)]);
    answer.extend(errors.map(|errors| ("errors".to_owned(), errors)));
    Ok(Value::Object(answer))
}

/// The call that is made first. It is no step of a branch, so `steps` and `previous` do not know
/// it; where it fails and is allowed to, `decision` is null.
async fn decided(run: &Run<'_>, part: &Part) -> Result<Trail, ToolError> {
    let mut first = Trail::default();
    run.expect(1);
    run_steps(run, std::slice::from_ref(part), &mut first).await?;
    let decision = first.previous().cloned();
    let (_, errors) = first.into_parts();
    let mut trail = Trail::default();
    trail.add("decision", decision.unwrap_or_default());
    trail.set_errors(errors);
    Ok(trail)
}

fn choose<'p>(
    run: &Run<'_>,
    trail: &Trail,
    branches: &'p [Way],
    otherwise: Option<&'p [Part]>,
) -> Result<(&'p str, &'p [Part]), ToolError> {
    let scope = trail.scope(run);
    for Way { name, when, parts } in branches {
        let holds = when.holds(&scope).map_err(|error| {
            let message = format!("the condition of branch `{name}` cannot be read: {}", error.message());
            ToolError::new(error.code(), message).with_source(error)
        })?;
        if holds {
            return Ok((name, parts));
        }
    }
    match otherwise {
        Some(parts) => Ok(("otherwise", parts)),
        None => Err(nothing_matched(branches)),
    }
}

fn nothing_matched(branches: &[Way]) -> ToolError {
    let message = "no branch fits these arguments, and there is nothing to do otherwise";
    let error = ToolError::new(ErrorCode::NoBranchMatched, message);
    branches.iter().fold(error, |error, Way { name, when, .. }| {
        error.suggest(format!("branch `{name}` is taken when {} holds", when.shown()))
    })
}
