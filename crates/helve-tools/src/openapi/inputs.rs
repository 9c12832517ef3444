//! Parameters and request body of an operation, as one input schema and the way back.

use std::collections::{BTreeMap, BTreeSet};

use helve_net::HeaderName;
use serde_json::{Map, Value, json};

use super::document::{Document, fields, is_true, items, text};
use super::naming::{self, Names};
use super::schema::Converter;
use crate::http::config::QueryStyle;
use crate::http::plan::{BodyPlan, CLIENT_HEADERS, HeaderForm, HeaderPlan, JsonPlan, QueryPlan};
use crate::http::template::Template;

/// Headers that the specification reserves for other parts of the document, or that hold
/// credentials: those are the operator's.
const RESERVED_HEADERS: [&str; 5] =
    ["accept", "content-type", "authorization", "cookie", "proxy-authorization"];
/// Longest name of an argument that model providers accept.
const ARGUMENT_CHARS_MAX: usize = 64;

/// What a call may give, and where each argument goes.
#[derive(Default)]
pub(super) struct Inputs {
    properties: Map<String, Value>,
    names: Names,
    required: Vec<String>,
    /// Names in the path, with their arguments.
    pub(super) path: BTreeMap<String, String>,
    pub(super) query: Vec<QueryPlan>,
    pub(super) headers: Vec<HeaderPlan>,
    pub(super) cookies: Vec<(String, Template)>,
    pub(super) body: Option<BodyPlan>,
    /// What a call cannot give, though the operation would take it.
    pub(super) left_out: Option<String>,
}

impl Inputs {
    /// Adds an argument under the wanted name, or one that says where it goes if that is taken.
    fn add(&mut self, wanted: &str, place: &str, schema: Value, required: bool) -> String {
        let plain = naming::sanitised(wanted, ARGUMENT_CHARS_MAX - 8);
        let wanted = if plain.is_empty() || self.names.has(&plain) {
            naming::sanitised(&format!("{place}_{plain}"), ARGUMENT_CHARS_MAX - 4)
        } else {
            plain
        };
        let name = self.names.free(&wanted, place);
        self.names.take(&name);
        if required {
            self.required.push(name.clone());
        }
        self.properties.insert(name.clone(), schema);
        name
    }

    /// A path may name what no parameter declares; it is text then.
    pub(super) fn path_argument(&mut self, name: &str) -> String {
        if let Some(argument) = self.path.get(name) {
            return argument.clone();
        }
        let argument = self.add(name, "path", json!({ "type": "string" }), true);
        self.path.insert(name.to_owned(), argument.clone());
        argument
    }

    /// The input schema.
    pub(super) fn schema(self, definitions: Map<String, Value>) -> Value {
        // The fields stand there even where there are none: an unknown one can then be named.
        let mut schema =
            json!({ "type": "object", "properties": self.properties, "additionalProperties": false });
        if !definitions.is_empty() {
            schema["$defs"] = definitions.into();
        }
        if !self.required.is_empty() {
            schema["required"] = self.required.into();
        }
        schema
    }
}

/// Parameters of the path item and of the operation; the operation's win.
pub(super) fn parameters<'d>(
    document: &'d Document,
    item: &'d Value,
    operation: &'d Value,
) -> Result<Vec<&'d Value>, String> {
    let mut found: Vec<&Value> = Vec::new();
    for parameter in items(item.get("parameters")).chain(items(operation.get("parameters"))) {
        let parameter = document.resolve(parameter)?;
        let key = |p: &Value| (text(p, "name").map(str::to_owned), text(p, "in").map(str::to_owned));
        found.retain(|earlier| key(earlier) != key(parameter));
        found.push(parameter);
    }
    Ok(found)
}

/// Adds one parameter.
pub(super) fn add_parameter(
    inputs: &mut Inputs,
    converter: &mut Converter<'_>,
    parameter: &Value,
) -> Result<(), String> {
    let name = text(parameter, "name").ok_or("a parameter has no name")?;
    let place = text(parameter, "in").unwrap_or_default();
    let folded = name.to_ascii_lowercase();
    let reserved = RESERVED_HEADERS.iter().chain(&CLIENT_HEADERS).any(|header| *header == folded);
    if place == "header" && reserved {
        return Ok(());
    }
    let content = fields(parameter.get("content")).next().map(|(_, media)| media);
    let schema = content.unwrap_or(parameter).get("schema").cloned().unwrap_or_else(|| json!({}));
    let mut schema = converter.convert(&schema)?;
    let description = naming::prose(text(parameter, "description").unwrap_or_default(), 500);
    if !description.is_empty() && schema.is_object() {
        // The default's note stands in the schema's own description; keep both.
        let note = text(&schema, "description").filter(|note| !description.contains(note));
        let joined = note.map_or(description.clone(), |note| format!("{description} {note}"));
        schema["description"] = joined.into();
    }
    let required = is_true(parameter, "required") || place == "path";
    let style = style(parameter, place, content.is_some())?;
    let header = match place {
        "header" => {
            Some(HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is not a header"))?)
        }
        _ => None,
    };
    let argument = inputs.add(name, place, schema, required);
    let value = Template::argument(&argument);
    match header {
        Some(name) => inputs.headers.push(HeaderPlan { name, value, form: HeaderForm::Plain }),
        None if place == "path" => drop(inputs.path.insert(name.to_owned(), argument)),
        None if place == "query" => inputs.query.push(QueryPlan { name: name.to_owned(), value, style }),
        None => inputs.cookies.push((name.to_owned(), value)),
    }
    Ok(())
}

fn style(parameter: &Value, place: &str, has_content: bool) -> Result<QueryStyle, String> {
    let style = text(parameter, "style");
    // `form` explodes unless told otherwise, the others do not.
    let explode = match parameter.get("explode") {
        Some(explode) => explode == true,
        None => matches!(style, None | Some("form")),
    };
    match (place, style) {
        ("path" | "header", None | Some("simple")) | ("cookie", None | Some("form" | "cookie")) => {
            Ok(QueryStyle::default())
        }
        ("query", _) if has_content => Ok(QueryStyle::Json),
        ("query", Some("deepObject")) => Ok(QueryStyle::Deep),
        ("query", None | Some("form" | "spaceDelimited" | "pipeDelimited")) if explode => {
            Ok(QueryStyle::Repeat)
        }
        ("query", None | Some("form")) => Ok(QueryStyle::Comma),
        ("query", Some("spaceDelimited")) => Ok(QueryStyle::Space),
        ("query", Some("pipeDelimited")) => Ok(QueryStyle::Pipe),
        ("query" | "path" | "header" | "cookie", Some(other)) => {
            Err(format!("the {place} style `{}` is not supported", naming::prose(other, 40)))
        }
        _ => Err(format!("parameters in `{}` are not supported", naming::prose(place, 40))),
    }
}

/// Adds the request body: its fields as arguments of their own, or the whole as one.
pub(super) fn add_body(
    inputs: &mut Inputs,
    converter: &mut Converter<'_>,
    document: &Document,
    operation: &Value,
) -> Result<(), String> {
    let Some(body) = operation.get("requestBody") else { return Ok(()) };
    let body = document.resolve(body)?;
    let required = is_true(body, "required");
    let Some((kind, media_type, media)) = choose(body) else {
        let offered = fields(body.get("content")).map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        let offered = naming::prose(&offered.join(", "), 100);
        if required {
            return Err(format!("its content would be {offered}"));
        }
        // Without its optional content the operation still works.
        inputs.left_out = Some(format!("its optional content, which would be {offered}, was left out"));
        return Ok(());
    };
    let empty = json!({});
    let schema = media.get("schema").unwrap_or(&empty);
    if matches!(kind, Kind::Form) && !required && is_empty_form(document.resolve(schema)?) {
        return Ok(());
    }
    let parts = match kind {
        Kind::Text => None,
        Kind::Json | Kind::Form => flat_properties(converter, document, schema, required)?,
    };
    inputs.body = Some(match (kind, parts) {
        (Kind::Text, _) => {
            let argument = inputs.add("body", "content", json!({ "type": "string" }), required);
            BodyPlan::Text { content: Template::argument(argument), media_type: media_type.to_owned() }
        }
        (Kind::Json, Some(parts)) => {
            let plan = |part: Part| {
                let argument = inputs.add(&part.name, "body", part.schema, part.required);
                (part.name, JsonPlan::Argument(argument))
            };
            let parts: Vec<_> = parts.into_iter().map(plan).collect();
            let content = if required { JsonPlan::Object(parts) } else { JsonPlan::OptionalObject(parts) };
            BodyPlan::Json { content, media_type: media_type.to_owned() }
        }
        (Kind::Json, None) => {
            let schema = converter.convert(schema)?;
            let content = JsonPlan::Argument(inputs.add("body", "content", schema, required));
            BodyPlan::Json { content, media_type: media_type.to_owned() }
        }
        (Kind::Form, Some(parts)) => {
            let mut plans = Vec::new();
            for part in parts {
                let style = form_style(media.get("encoding").and_then(|encoding| encoding.get(&part.name)))?;
                let argument = inputs.add(&part.name, "body", part.schema, part.required);
                plans.push(QueryPlan { name: part.name, value: Template::argument(argument), style });
            }
            check_names(&plans, document, schema)?;
            BodyPlan::Form(plans)
        }
        (Kind::Form, None) => return Err("its form has no list of fields".to_owned()),
    });
    Ok(())
}

/// Whether a form says that it has no fields. Generators write such a one for every operation, also for
/// those without content.
fn is_empty_form(schema: &Value) -> bool {
    let lists_none = schema.get("properties").and_then(Value::as_object).is_some_and(Map::is_empty);
    let open = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    lists_none && !open && !WHOLE.iter().any(|key| schema.get(*key).is_some())
}

/// Keywords of a schema that only holds as a whole.
const WHOLE: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "minProperties"];

/// How a field of a form is written. Where the document says nothing an object is JSON, as OpenAPI
/// 3.1 has it: its fields would else stand next to those of the form.
fn form_style(encoding: Option<&Value>) -> Result<QueryStyle, String> {
    let Some(encoding) = encoding else { return Ok(QueryStyle::Whole) };
    if ["style", "explode", "allowReserved"].iter().any(|key| encoding.get(*key).is_some()) {
        return style(encoding, "query", false);
    }
    let is_json = text(encoding, "contentType").is_some_and(|kind| kind.trim() == "application/json");
    Ok(if is_json { QueryStyle::Json } else { QueryStyle::Whole })
}

/// Refuses a form that would send two of its values under one name.
fn check_names(plans: &[QueryPlan], document: &Document, form: &Value) -> Result<(), String> {
    let form = document.resolve(form)?;
    let mut taken: BTreeSet<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    for plan in plans.iter().filter(|plan| plan.style == QueryStyle::Repeat) {
        let Some(property) = form.get("properties").and_then(|fields| fields.get(&plan.name)) else {
            continue;
        };
        for (key, _) in fields(document.resolve(property)?.get("properties")) {
            // Its own name is free: nothing but its fields is sent.
            if *key != plan.name && !taken.insert(key) {
                let (field, key) = (naming::prose(&plan.name, 60), naming::prose(key, 60));
                return Err(format!("its form would send two values as `{key}`: `{field}` is spread out"));
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    Json,
    Form,
    Text,
}

/// The media type to send, JSON first.
fn choose(body: &Value) -> Option<(Kind, &str, &Value)> {
    let kind = |name: &str| match name.split(';').next().unwrap_or_default().trim() {
        "application/json" | "*/*" => Some((0, Kind::Json)),
        name if name.ends_with("+json") => Some((1, Kind::Json)),
        "application/x-www-form-urlencoded" => Some((2, Kind::Form)),
        name if name.starts_with("text/") => Some((3, Kind::Text)),
        _ => None,
    };
    let offers = fields(body.get("content")).filter_map(|(name, media)| {
        let (rank, kind) = kind(name)?;
        Some((rank, kind, name.as_str(), media))
    });
    let best = offers.min_by_key(|(rank, ..)| *rank);
    best.map(|(_, kind, name, media)| (kind, if name == "*/*" { "application/json" } else { name }, media))
}

struct Part {
    name: String,
    schema: Value,
    required: bool,
}

/// The fields of a plain object; `None` for everything that only holds as a whole.
fn flat_properties(
    converter: &mut Converter<'_>,
    document: &Document,
    schema: &Value,
    body_required: bool,
) -> Result<Option<Vec<Part>>, String> {
    let schema = document.resolve(schema)?;
    let open = schema.get("additionalProperties").is_some_and(Value::is_object);
    let required: Vec<_> = items(schema.get("required")).filter_map(Value::as_str).collect();
    let plain = !open
        && !WHOLE.iter().any(|key| schema.get(*key).is_some())
        && fields(schema.get("properties")).next().is_some()
        // Fields that are required only if there is a body at all need the body as one argument.
        && (body_required || required.is_empty());
    if !plain {
        return Ok(None);
    }
    let mut parts = Vec::new();
    for (name, property) in fields(schema.get("properties")) {
        if !converter.leaves_out(property) {
            let required = required.contains(&name.as_str());
            parts.push(Part { name: name.clone(), schema: converter.convert(property)?, required });
        }
    }
    Ok(Some(parts))
}
