//! Steps one after the other.

use helve_core::ToolError;
use helve_core::expression::Scope;
use serde_json::{Map, Value, json};

use super::plan::{Arguments, Make, Part};
use super::run::{Ended, Run, fits, named_fields, unreadable};
use super::step::OnError;

/// What steps have left behind.
pub(super) struct Trail {
    steps: Value,
    errors: Value,
    /// Steps that were not due.
    left_out: Vec<String>,
    /// What else expressions can name.
    more: Vec<(&'static str, Value)>,
}

impl Default for Trail {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Trail {
    /// With room for the results of so many steps.
    pub(super) fn new(steps: usize) -> Self {
        let steps = Value::Object(Map::with_capacity(steps));
        Self { steps, errors: json!({}), left_out: Vec::new(), more: Vec::new() }
    }

    /// What the last step that succeeded answered. No two steps have one name, and results stand in the
    /// order in which they came.
    pub(super) fn previous(&self) -> Option<&Value> {
        self.steps.as_object()?.values().next_back()
    }

    pub(super) fn scope<'a>(&'a self, run: &'a Run<'_>) -> Scope<'a> {
        // Null, so that a template can ask whether there is one.
        let previous = self.previous().unwrap_or(&Value::Null);
        let scope = run.scope().with("steps", &self.steps).with("errors", &self.errors);
        let scope = scope.with("previous", previous);
        self.more.iter().fold(scope, |scope, (name, value)| scope.with(name, value))
    }

    pub(super) fn add_result(&mut self, name: &str, result: Value) {
        if let Value::Object(steps) = &mut self.steps {
            steps.insert(name.to_owned(), result);
        }
    }

    pub(super) fn add_error(&mut self, name: &str, error: &ToolError) {
        self.errors[name] = json!(error);
    }

    /// Adds something that expressions can name.
    pub(super) fn add(&mut self, name: &'static str, value: Value) {
        self.more.push((name, value));
    }

    /// Takes over what failed before.
    pub(super) fn set_errors(&mut self, errors: Option<Value>) {
        self.errors = errors.unwrap_or_else(|| json!({}));
    }

    /// What `output` makes of them.
    pub(super) fn output(&self, run: &Run<'_>, output: &Make) -> Result<Value, ToolError> {
        output.value(&self.scope(run)).map_err(|error| {
            let own = ToolError::new(error.code(), format!("`output` cannot be made: {}", error.message()));
            match self.left_out.as_slice() {
                [] => own,
                left_out => {
                    let names = left_out.join("`, `");
                    own.suggest(format!("`{names}` did not run, so that `output` must do without its result"))
                }
            }
        })
    }

    /// The results, and the errors where there are any.
    pub(super) fn into_parts(self) -> (Value, Option<Value>) {
        let failed = self.errors.as_object().is_some_and(|errors| !errors.is_empty());
        (self.steps, failed.then_some(self.errors))
    }
}

pub(super) async fn run_sequence(
    run: &Run<'_>,
    parts: &[Part],
    output: Option<&Make>,
) -> Result<Value, ToolError> {
    let mut trail = Trail::new(parts.len());
    run.expect(parts.len());
    run_steps(run, parts, &mut trail).await?;
    if let Some(output) = output {
        return trail.output(run, output);
    }
    let (results, errors) = trail.into_parts();
    let mut answer = Map::from_iter([("results".to_owned(), results)]);
    answer.extend(errors.map(|errors| ("errors".to_owned(), errors)));
    Ok(Value::Object(answer))
}

/// Runs steps one after the other, as far as they go.
pub(super) async fn run_steps(run: &Run<'_>, parts: &[Part], trail: &mut Trail) -> Result<(), ToolError> {
    for part in parts {
        run.check_cancelled()?;
        let prepared = prepare(run, part, trail);
        let ended = match prepared {
            Ok(Some(arguments)) => run.call(part, &part.path, arguments, None).await,
            Ok(None) => {
                run.skipped();
                trail.left_out.push(part.name.to_string());
                continue;
            }
            Err(error) => Ended::Failed(error),
        };
        match (ended, part.on_error) {
            (Ended::Done(result), _) => trail.add_result(&part.name, result),
            (Ended::Failed(error), OnError::Continue) => {
                run.note_failed_part(&part.path, &error);
                trail.add_error(&part.name, &error);
            }
            (Ended::Failed(error), OnError::Stop | OnError::Undo) => {
                return Err(run.failed(&part.path, error));
            }
            (Ended::Stopped(error), _) => return Err(error),
        }
    }
    Ok(())
}

/// The arguments of a step, or `None` where it is not due.
pub(super) fn prepare(run: &Run<'_>, part: &Part, trail: &Trail) -> Result<Option<Value>, ToolError> {
    if let Some(when) = &part.when
        && !when.holds(&trail.scope(run))?
    {
        return Ok(None);
    }
    let previous = trail.previous();
    let arguments = match &part.arguments {
        Arguments::Template(template) => template.render(&trail.scope(run)).map_err(unreadable)?,
        Arguments::Code(transform) => transform.make(previous.unwrap_or(&Value::Null), run.input)?,
        Arguments::Passed => match previous.filter(|previous| fits(part, previous)) {
            Some(previous) => previous.clone(),
            None if fits(part, run.input) => run.input.clone(),
            None => named_fields(part, run.input),
        },
    };
    Ok(Some(arguments))
}
