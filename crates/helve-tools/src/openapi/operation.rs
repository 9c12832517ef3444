//! Makes a tool of one operation.

use std::sync::Arc;

use helve::Tool;
use helve_net::{Method, Url};
use serde_json::{Map, Value};

use super::access::Access;
use super::config::OpenApiConfig;
use super::document::{Document, fields, is_true, text};
use super::inputs::{self, Inputs};
use super::naming;
use super::schema::{Converter, Detail, Direction};
use crate::common::ToolCommon;
use crate::http::config::ResponseConfig;
use crate::http::plan::{BodyPlan, RequestPlan};
use crate::http::render::is_dots;
use crate::http::template::{Part, Template};
use crate::http::{Backend, HttpHandler, Shows, assumed_of, defaults_of};

const DESCRIPTION_CHARS_MAX: usize = 1_500;
const TITLE_CHARS_MAX: usize = 120;

/// What all operations of an import share.
pub(super) struct Shared<'a> {
    pub(super) config: &'a OpenApiConfig,
    pub(super) document: &'a Document,
    pub(super) access: &'a Access,
    pub(super) origin: Option<&'a Url>,
    pub(super) backend: &'a Backend,
}

/// One operation in its document.
pub(super) struct Operation<'d> {
    pub(super) path: &'d str,
    pub(super) method: Method,
    pub(super) item: &'d Value,
    pub(super) value: &'d Value,
}

/// A tool, and what the operation has that the tool has not.
pub(super) struct Made {
    pub(super) tool: Tool,
    pub(super) left_out: Option<String>,
}

/// Makes a tool, or says why not. What a strict reading refuses gets a second, looser one.
pub(super) fn tool(shared: &Shared<'_>, operation: &Operation<'_>, name: &str) -> Result<Made, String> {
    build(shared, operation, name, Detail::Full)
        .or_else(|reason| build(shared, operation, name, Detail::Loose).map_err(|_| reason))
}

fn build(shared: &Shared<'_>, operation: &Operation<'_>, name: &str, detail: Detail) -> Result<Made, String> {
    let (plan, mut inputs, definitions) = plan(shared, operation, detail)?;
    let mut common = ToolCommon::new(format!("{}/{name}", shared.config.namespace), description(operation));
    let left_out = inputs.left_out.take();
    common.input_schema = Some(inputs.schema(definitions));
    common.output_schema = output_schema(shared, operation)?;
    common.requires_approval = shared.config.requires_approval;
    common.timeout_ms = shared.config.timeout_ms;
    common.retry = shared.config.retry.clone();
    common.integrations.clone_from(&shared.config.integrations);
    common.annotations.title =
        text(operation.value, "summary").map(|summary| naming::prose(summary, TITLE_CHARS_MAX));
    let defaults = defaults_of(&operation.method);
    let handler = Arc::new(HttpHandler::new(plan, shared.backend.clone()));
    let shows = if shared.config.integrations.is_empty() { Shows::Nobody } else { Shows::Somebody };
    let assumed = assumed_of(&operation.method, shows);
    let built = common.into_builder(defaults).assumed(assumed).shared_handler(handler).build();
    built.map(|tool| Made { tool, left_out }).map_err(|error| {
        let problems: Vec<_> = error.problems.iter().take(3).map(ToString::to_string).collect();
        naming::prose(&problems.join("; "), 300)
    })
}

/// The request with holes, what fills them, and the definitions that this refers to.
fn plan(
    shared: &Shared<'_>,
    operation: &Operation<'_>,
    detail: Detail,
) -> Result<(RequestPlan, Inputs, Map<String, Value>), String> {
    let mut credentials = shared.access.credentials(shared.document, operation.value)?;
    credentials.headers.extend(shared.access.headers.iter().cloned());
    credentials.query.extend(shared.access.query.iter().cloned());
    let mut converter = Converter::new(shared.document, Direction::Input, detail);
    let mut inputs = Inputs::default();
    for parameter in inputs::parameters(shared.document, operation.item, operation.value)? {
        // What the operator gives for every request is not the model's to choose.
        let (place, name) = (text(parameter, "in"), text(parameter, "name").unwrap_or_default());
        let given = match place {
            Some("header") => credentials.headers.iter().any(|h| h.name.as_str().eq_ignore_ascii_case(name)),
            Some("query") => credentials.query.iter().any(|query| query.name == name),
            Some("cookie") => credentials.cookies.iter().any(|(cookie, _)| cookie == name),
            _ => false,
        };
        if !given {
            inputs::add_parameter(&mut inputs, &mut converter, parameter)?;
        }
    }
    let path = path(operation.path, &mut inputs)?;
    inputs::add_body(&mut inputs, &mut converter, shared.document, operation.value)?;
    let nearest = operation.value.get("servers").or_else(|| operation.item.get("servers"));
    credentials.query.append(&mut inputs.query);
    credentials.cookies.append(&mut inputs.cookies);
    // Last wins in a header map, so the operator's headers stand after the parameters'.
    let mut headers = std::mem::take(&mut inputs.headers);
    headers.append(&mut credentials.headers);
    let plan = RequestPlan {
        method: operation.method.clone(),
        base: shared.access.base(shared.config, shared.document, nearest, shared.origin)?,
        path,
        query: credentials.query,
        headers,
        cookies: credentials.cookies,
        body: inputs.body.take().unwrap_or(BodyPlan::None),
        response: ResponseConfig { bytes_max: shared.config.response_bytes_max, ..ResponseConfig::default() },
    };
    Ok((plan, inputs, converter.definitions()?))
}

/// The segments of a path. Not a template of ours: a document may not name our variables.
fn path(path: &str, inputs: &mut Inputs) -> Result<Vec<Template>, String> {
    if path.contains(['?', '#', '\\']) {
        return Err("its path holds `?`, `#` or a backslash".to_owned());
    }
    let path = path.strip_prefix('/').ok_or("its path does not start with `/`")?;
    path.split('/').map(|text| segment(text, inputs).map(Template::of)).collect()
}

fn segment(text: &str, inputs: &mut Inputs) -> Result<Vec<Part>, String> {
    if is_dots(text) {
        return Err("its path holds `.` or `..`".to_owned());
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or("its path has a `{` that is never closed")?;
        parts.push(Part::Text(before.to_owned()));
        parts.push(Part::Argument(inputs.path_argument(name)));
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    parts.retain(|part| *part != Part::Text(String::new()));
    Ok(parts)
}

fn description(operation: &Operation<'_>) -> String {
    let summary = text(operation.value, "summary").unwrap_or_default().trim();
    let long = text(operation.value, "description").unwrap_or_default().trim();
    let deprecated = if is_true(operation.value, "deprecated") { "Deprecated." } else { "" };
    let parts = [deprecated, summary, if long == summary { "" } else { long }];
    let told: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let told = naming::prose(&told.join("\n"), DESCRIPTION_CHARS_MAX);
    let request = naming::prose(&format!("{} {}", operation.method, operation.path), 200);
    if told.is_empty() { request } else { format!("{told}\n({request})") }
}

/// The schema of the first JSON response with a 2xx status, where the operator wants it checked.
fn output_schema(shared: &Shared<'_>, operation: &Operation<'_>) -> Result<Option<Value>, String> {
    if !shared.config.output_schemas {
        return Ok(None);
    }
    let response = fields(operation.value.get("responses")).find(|(status, _)| status.starts_with('2'));
    let Some((_, response)) = response else { return Ok(None) };
    let response = shared.document.resolve(response)?;
    let json = fields(response.get("content"))
        .find(|(media_type, _)| *media_type == "application/json" || media_type.ends_with("+json"));
    let Some(schema) = json.and_then(|(_, media)| media.get("schema")) else { return Ok(None) };
    let mut converter = Converter::new(shared.document, Direction::Output, Detail::Loose);
    let mut schema = converter.convert(schema)?;
    let definitions = converter.definitions()?;
    if !definitions.is_empty() && schema.is_object() {
        schema["$defs"] = definitions.into();
    }
    Ok(Some(schema))
}
