//! Defaults, repairs, validation: after this the arguments fit the tool's schema.

use helve_core::json::check as check_limits;
use helve_core::schema::example::corrected;
use helve_core::schema::redact::REDACTED;
use helve_core::schema::repair::repair;
use helve_core::{ErrorCode, Example, FieldError, Repair, Tool, ToolError};
use serde_json::{Map, Value};

use super::authorize::AuthorizedCall;
use super::record::ArgumentsRecord;
use super::resolve::ResolvedCall;
use crate::formats::drop_absent;
use crate::runtime::Settings;

/// A call whose arguments fit the tool's schema.
pub(super) struct PreparedCall(pub(super) ResolvedCall);

/// How many field errors the message itself names; all of them are in the list.
const NAMED_MAX: usize = 3;

/// Makes the arguments fit the tool's schema, or says how they do not.
pub(super) fn prepare(
    settings: &Settings,
    authorized: AuthorizedCall,
    record: &mut ArgumentsRecord<'_>,
) -> Result<PreparedCall, ToolError> {
    let mut resolved = authorized.0;
    let tool = &resolved.tool;
    let arguments = &mut resolved.call.arguments;
    if let Err(error) = check_limits(arguments, settings.arguments) {
        // Arguments beyond the limits are not recorded either.
        return Err(ToolError::new(ErrorCode::ValidationFailed, error.to_string()));
    }
    if arguments.is_null() {
        *arguments = Value::Object(Map::new());
    }
    match fit(settings, tool, arguments) {
        Ok(repairs) => {
            record.keep(arguments);
            record.add_repairs(repairs);
            Ok(PreparedCall(resolved))
        }
        Err(error) => {
            record.keep_refused(arguments);
            Err(error)
        }
    }
}

/// Makes arguments fit a tool's schema, and says what was mended.
pub(super) fn fit(settings: &Settings, tool: &Tool, arguments: &mut Value) -> Result<Vec<Repair>, ToolError> {
    let repairs = mend(settings, tool, arguments)?;
    // The same numbers, in the form that every handler can read.
    tool.input().write_whole(arguments);
    Ok(repairs)
}

fn mend(settings: &Settings, tool: &Tool, arguments: &mut Value) -> Result<Vec<Repair>, ToolError> {
    let schema = tool.input();
    fill_in(tool, arguments)?;
    if schema.accepts(arguments) {
        return Ok(Vec::new());
    }
    // Our own strict exports make models send null for what is absent; taking that back mends
    // nothing of theirs.
    drop_absent(schema.json(), arguments);
    fill_in(tool, arguments)?;
    if schema.accepts(arguments) {
        return Ok(Vec::new());
    }
    if settings.repair
        && schema.can_explain(arguments)
        && let Some(mut repairs) = repair(schema, arguments)
    {
        // A repair can make an object of a string, whose defaults are still to come.
        fill_in(tool, arguments)?;
        for repair in &mut repairs {
            if settings.redactor.touches_secret(schema, &repair.path) {
                repair.detail = "a secret value was mended".to_owned();
            }
        }
        return Ok(repairs);
    }
    let fields = schema.validate(arguments).err().unwrap_or_default();
    Err(invalid(settings, tool, arguments, fields))
}

/// Fills in defaults. A tool never gets some of them and not the others.
fn fill_in(tool: &Tool, arguments: &mut Value) -> Result<(), ToolError> {
    if tool.input().apply_defaults(arguments) {
        return Ok(());
    }
    let message = format!(
        "the arguments of `{}` have too many objects for all their defaults to be filled in",
        tool.name()
    );
    Err(ToolError::new(ErrorCode::ValidationFailed, message).suggest("send fewer objects in one call"))
}

fn invalid(settings: &Settings, tool: &Tool, arguments: &Value, mut fields: Vec<FieldError>) -> ToolError {
    let redactor = &settings.redactor;
    for field in &mut fields {
        if redactor.touches_secret(tool.input(), &field.path) {
            *field = FieldError::new(
                std::mem::take(&mut field.path),
                std::mem::take(&mut field.expected),
                REDACTED,
            );
        }
    }
    let named: Vec<_> = fields.iter().take(NAMED_MAX).map(|field| field.message.as_str()).collect();
    let more = match fields.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let message = format!("the arguments of `{}` do not fit: {}{more}", tool.name(), named.join("; "));
    let error = ToolError::new(ErrorCode::ValidationFailed, message)
        .suggest("correct the listed fields and call again")
        .with_fields(fields);
    let known: Vec<_> = tool.definition().examples.iter().filter_map(Example::arguments).collect();
    let example =
        tool.input().can_explain(arguments).then(|| corrected(tool.input(), arguments, &known, redactor));
    match example.flatten() {
        Some(example) => error.with_example(example),
        None => error,
    }
}
