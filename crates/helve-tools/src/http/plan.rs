//! A checked request with holes in it, made once for a tool.

use std::collections::BTreeSet;

use helve::Problem;
use helve_net::{HeaderName, Method, Url};
use serde_json::Value;

use super::config::{
    BodyConfig, BodyMapping, BodyPreset, HttpMethod, HttpToolConfig, QueryConfig, QueryStyle, ResponseConfig,
};
use super::literal;
use super::render::is_dots;
use super::template::{Part, Template};

/// Headers that frame a request or name its host. Only the client sets them.
pub(crate) const CLIENT_HEADERS: [&str; 6] =
    ["host", "content-length", "transfer-encoding", "connection", "te", "upgrade"];

/// A request with holes.
#[derive(Debug, Clone)]
pub(crate) struct RequestPlan {
    pub(crate) method: Method,
    /// Scheme, host, port and perhaps the start of a path. No argument stands in it.
    pub(crate) base: Template,
    /// The segments of the path after the base.
    pub(crate) path: Vec<Template>,
    pub(crate) query: Vec<QueryPlan>,
    pub(crate) headers: Vec<HeaderPlan>,
    pub(crate) cookies: Vec<(String, Template)>,
    pub(crate) body: BodyPlan,
    pub(crate) response: ResponseConfig,
}

#[derive(Debug, Clone)]
pub(crate) struct QueryPlan {
    pub(crate) name: String,
    pub(crate) value: Template,
    pub(crate) style: QueryStyle,
}

#[derive(Debug, Clone)]
pub(crate) struct HeaderPlan {
    pub(crate) name: HeaderName,
    pub(crate) value: Template,
    pub(crate) form: HeaderForm,
}

/// What is done to a header's value once it is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderForm {
    Plain,
    /// `user:password` becomes HTTP's basic authentication.
    Basic,
}

#[derive(Debug, Clone)]
pub(crate) enum BodyPlan {
    None,
    Json { content: JsonPlan, media_type: String },
    Form(Vec<QueryPlan>),
    Text { content: Template, media_type: String },
}

/// JSON with holes.
#[derive(Debug, Clone)]
pub(crate) enum JsonPlan {
    Literal(Value),
    Text(Template),
    /// An argument with its type; left out where it is absent.
    Argument(String),
    /// All arguments but these.
    AllBut(BTreeSet<String>),
    Array(Vec<JsonPlan>),
    Object(Vec<(String, JsonPlan)>),
    /// An object that is not sent at all while it is empty.
    OptionalObject(Vec<(String, JsonPlan)>),
}

/// The largest response unless the configuration says otherwise.
const RESPONSE_BYTES_MAX: usize = 4 << 20;

impl RequestPlan {
    /// The largest response that is read.
    pub(crate) fn response_bytes_max(&self) -> usize {
        self.response.bytes_max.unwrap_or(RESPONSE_BYTES_MAX)
    }

    /// The variables whose values must not come back. What the base names is only an address.
    pub(crate) fn secret_variables(&self) -> BTreeSet<&str> {
        self.templates().into_iter().flat_map(Template::variables).collect()
    }

    /// The arguments that URL, query and headers use.
    fn used_arguments(&self) -> BTreeSet<String> {
        let templates = self.path.iter().chain(self.query.iter().map(|query| &query.value));
        let templates = templates.chain(self.headers.iter().map(|header| &header.value));
        templates.flat_map(Template::arguments).map(str::to_owned).collect()
    }

    /// Every template but the base.
    fn templates(&self) -> Vec<&Template> {
        let mut found: Vec<_> = self.path.iter().collect();
        found.extend(self.query.iter().map(|query| &query.value));
        found.extend(self.headers.iter().map(|header| &header.value));
        found.extend(self.cookies.iter().map(|(_, value)| value));
        match &self.body {
            BodyPlan::None => {}
            BodyPlan::Json { content, .. } => content.templates(&mut found),
            BodyPlan::Form(fields) => found.extend(fields.iter().map(|field| &field.value)),
            BodyPlan::Text { content, .. } => found.push(content),
        }
        found
    }
}

impl BodyPlan {
    fn json(content: JsonPlan) -> Self {
        Self::Json { content, media_type: "application/json".to_owned() }
    }
}

impl JsonPlan {
    fn templates<'a>(&'a self, found: &mut Vec<&'a Template>) {
        match self {
            Self::Literal(_) | Self::Argument(_) | Self::AllBut(_) => {}
            Self::Text(template) => found.push(template),
            Self::Array(items) => items.iter().for_each(|item| item.templates(found)),
            Self::Object(fields) | Self::OptionalObject(fields) => {
                fields.iter().for_each(|(_, item)| item.templates(found));
            }
        }
    }

    fn arguments(&self) -> Vec<&str> {
        match self {
            Self::Literal(_) | Self::AllBut(_) => Vec::new(),
            Self::Text(template) => template.arguments().collect(),
            Self::Argument(name) => vec![name],
            Self::Array(items) => items.iter().flat_map(Self::arguments).collect(),
            Self::Object(fields) | Self::OptionalObject(fields) => {
                fields.iter().flat_map(|(_, item)| item.arguments()).collect()
            }
        }
    }
}

/// Makes a plan of a configuration, or lists everything that is wrong with it.
pub(crate) fn compile(config: &HttpToolConfig) -> Result<RequestPlan, Vec<Problem>> {
    let mut compiler = Compiler { problems: Vec::new() };
    let plan = compiler.plan(config);
    if let Some(plan) = &plan {
        compiler.check_arguments(config, plan);
    }
    match plan {
        Some(plan) if compiler.problems.is_empty() => Ok(plan),
        _ => Err(compiler.problems),
    }
}

struct Compiler {
    problems: Vec<Problem>,
}

impl Compiler {
    fn refuse(&mut self, at: &str, message: impl Into<String>) {
        self.problems.push(Problem { at: at.to_owned(), message: message.into() });
    }

    fn plan(&mut self, config: &HttpToolConfig) -> Option<RequestPlan> {
        let (base, path, query_text) = self.url(&config.url)?;
        let mut query = self.query_in_url(query_text);
        for (name, value) in &config.query {
            let (text, style) = match value {
                QueryConfig::Value(text) => (text, QueryStyle::default()),
                QueryConfig::Styled(styled) => (&styled.value, styled.style),
            };
            query.extend(self.named(&format!("query/{name}"), name, text).map(|value| QueryPlan {
                name: name.clone(),
                value,
                style,
            }));
        }
        let headers: Vec<_> =
            config.headers.iter().filter_map(|(name, text)| self.header(name, text)).collect();
        let mut plan = RequestPlan {
            method: method(config.method),
            base,
            path,
            query,
            headers,
            cookies: Vec::new(),
            body: BodyPlan::None,
            response: self.response(&config.response),
        };
        plan.body = self.body(config.body.as_ref(), &plan);
        Some(plan)
    }

    /// Splits a URL into what arguments may not touch, the segments of its path, and its query.
    fn url<'u>(&mut self, url: &'u str) -> Option<(Template, Vec<Template>, Option<&'u str>)> {
        if url.contains('#') {
            self.refuse("url", "a part after `#` is never sent; remove it");
        }
        // A variable may hold the scheme too; then the first `://` is part of something later.
        let scheme = url.find("://").filter(|at| url.find('/') == Some(at + 1));
        let authority = scheme.map_or(0, |at| at + 3);
        let split = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
        let base = self.template("url", &url[..split])?;
        if base.arguments().next().is_some() {
            self.refuse("url", "an argument may not choose the host; write the host, or `${env:NAME}`");
            return None;
        }
        // A variable may hold the whole base, so only a literal one can be checked now.
        if base.variables().next().is_none() {
            let literal = Url::parse(&url[..split]).ok();
            let good = literal.is_some_and(|url| {
                matches!(url.scheme(), "http" | "https")
                    && url.has_host()
                    && url.username().is_empty()
                    && url.password().is_none()
            });
            if !good {
                self.refuse(
                    "url",
                    "it must start with `https://` or `http://` and a host, without a user name",
                );
            }
        }
        let (path, query) = match url[split..].split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (&url[split..], None),
        };
        let segments = path.strip_prefix('/').map(|path| path.split('/')).into_iter().flatten();
        let path: Vec<_> = segments.filter_map(|segment| self.segment(segment)).collect();
        Some((base, path, query))
    }

    fn segment(&mut self, text: &str) -> Option<Template> {
        if is_dots(text) {
            self.refuse("url", "`.` and `..` do not belong in a path");
        }
        self.named("url", "", text)
    }

    fn query_in_url(&mut self, query: Option<&str>) -> Vec<QueryPlan> {
        let pairs = query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty());
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        pairs
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                let name = decode(name);
                let value = self.named("url", &name, &decode(value))?;
                Some(QueryPlan { name, value, style: QueryStyle::default() })
            })
            .collect()
    }

    fn header(&mut self, name: &str, text: &str) -> Option<HeaderPlan> {
        let at = format!("headers/{name}");
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            self.refuse(&at, "it is not the name of a header");
            return None;
        };
        if CLIENT_HEADERS.contains(&header.as_str()) {
            self.refuse(&at, "the client sets this header itself; remove it");
        }
        let value = self.named(&at, name, text)?;
        Some(HeaderPlan { name: header, value, form: HeaderForm::Plain })
    }

    fn body(&mut self, body: Option<&BodyConfig>, plan: &RequestPlan) -> BodyPlan {
        match body {
            None => BodyPlan::None,
            Some(BodyConfig::Preset(BodyPreset::Arguments)) => {
                BodyPlan::json(JsonPlan::AllBut(BTreeSet::new()))
            }
            Some(BodyConfig::Preset(BodyPreset::Rest)) => {
                BodyPlan::json(JsonPlan::AllBut(plan.used_arguments()))
            }
            Some(BodyConfig::Mapped(BodyMapping::Json(value))) => {
                self.json("body/json", "", value).map_or(BodyPlan::None, BodyPlan::json)
            }
            Some(BodyConfig::Mapped(BodyMapping::Form(fields))) => {
                let field = |(name, text): (&String, &String)| {
                    let value = self.named(&format!("body/form/{name}"), name, text)?;
                    Some(QueryPlan { name: name.clone(), value, style: QueryStyle::default() })
                };
                BodyPlan::Form(fields.iter().filter_map(field).collect())
            }
            Some(BodyConfig::Mapped(BodyMapping::Text(text))) => match self.named("body/text", "", text) {
                Some(content) => {
                    BodyPlan::Text { content, media_type: "text/plain; charset=utf-8".to_owned() }
                }
                None => BodyPlan::None,
            },
        }
    }

    fn json(&mut self, at: &str, name: &str, value: &Value) -> Option<JsonPlan> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(JsonPlan::Literal(value.clone())),
            Value::String(text) => {
                let template = self.named(at, name, text)?;
                let argument = template.as_argument().map(str::to_owned);
                Some(argument.map_or_else(|| JsonPlan::Text(template), JsonPlan::Argument))
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.filter_map(|(index, item)| self.json(&format!("{at}/{index}"), name, item));
                Some(JsonPlan::Array(items.collect()))
            }
            Value::Object(fields) => {
                let field = |(key, item): (&String, &Value)| {
                    Some((key.clone(), self.json(&format!("{at}/{key}"), key, item)?))
                };
                Some(JsonPlan::Object(fields.iter().filter_map(field).collect()))
            }
        }
    }

    fn response(&mut self, response: &ResponseConfig) -> ResponseConfig {
        let pick = response.pick.iter().map(|pointer| ("response/pick".to_owned(), pointer));
        let fields = response.fields.iter().map(|(name, at)| (format!("response/fields/{name}"), at));
        for (at, pointer) in pick.chain(fields) {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                self.refuse(&at, "a JSON Pointer starts with `/`, as in `/data/items`");
            }
        }
        response.clone()
    }

    fn template(&mut self, at: &str, text: &str) -> Option<Template> {
        Template::parse(text).map_err(|message| self.refuse(at, message)).ok()
    }

    /// A template under a name that may say that its value is secret.
    fn named(&mut self, at: &str, name: &str, text: &str) -> Option<Template> {
        let template = self.template(at, text)?;
        if let Some(message) = literal::refusal(name, &template) {
            self.refuse(at, message);
        }
        Some(template)
    }

    /// Every placeholder must name an argument, and one in the path must always be there.
    fn check_arguments(&mut self, config: &HttpToolConfig, plan: &RequestPlan) {
        let known: BTreeSet<_> = config.common.argument_names().into_iter().collect();
        let in_json = match &plan.body {
            BodyPlan::Json { content, .. } => content.arguments(),
            BodyPlan::None | BodyPlan::Form(_) | BodyPlan::Text { .. } => Vec::new(),
        };
        let used = plan.templates().into_iter().flat_map(Template::arguments).chain(in_json);
        let open =
            config.common.input_schema.as_ref().is_some_and(|schema| schema.get("properties").is_none());
        if !open {
            for name in used.collect::<BTreeSet<_>>().difference(&known) {
                self.refuse("parameters", format!("`{{{name}}}` is used, but no argument has that name"));
            }
        }
        for name in plan.path.iter().flat_map(Template::arguments) {
            if !open && known.contains(name) && !always_there(config, name) {
                let message = format!("`{name}` stands in the path: make it required, or give it a default");
                self.refuse("url", message);
            }
        }
    }
}

fn always_there(config: &HttpToolConfig, name: &str) -> bool {
    let parameter = config.common.parameters.iter().find(|parameter| parameter.name == name);
    if let Some(parameter) = parameter {
        return parameter.required || parameter.default.is_some();
    }
    let schema = config.common.input_schema.as_ref();
    let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
    let default = schema.and_then(|schema| schema["properties"][name].get("default"));
    required.is_some_and(|names| names.iter().any(|required| required == name)) || default.is_some()
}

fn method(method: HttpMethod) -> Method {
    match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Delete => Method::DELETE,
    }
}

/// Whether a template has holes at all.
pub(crate) fn is_literal(template: &Template) -> bool {
    template.parts().iter().all(|part| matches!(part, Part::Text(_)))
}
