//! Where an API is and how to prove who calls: what the operator says, and what the document says.
//!
//! A document is text from outside. It may say where its API is, but credentials go only to the
//! one origin that the document as a whole, or the operator, names: an operation that wants them
//! sent elsewhere is skipped. Nothing in a document is read as `${env:NAME}`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use helve_net::{HeaderName, Url, header};
use serde_json::Value;

use super::config::OpenApiConfig;
use super::document::{Document, fields, items, text};
use super::naming;
use crate::http::config::QueryStyle;
use crate::http::literal;
use crate::http::plan::{CLIENT_HEADERS, HeaderForm, HeaderPlan, QueryPlan};
use crate::http::template::Template;

/// What the operator gives for every request of an API, read once.
pub(super) struct Access {
    server: Option<Template>,
    pub(super) headers: Vec<HeaderPlan>,
    pub(super) query: Vec<QueryPlan>,
    schemes: BTreeMap<String, Template>,
    /// Whether the document says of some operation that it needs credentials: looked for once.
    secures_some: OnceLock<bool>,
}

/// What one operation sends to prove who calls.
#[derive(Default)]
pub(super) struct Credentials {
    pub(super) headers: Vec<HeaderPlan>,
    pub(super) query: Vec<QueryPlan>,
    pub(super) cookies: Vec<(String, Template)>,
}

impl Access {
    pub(super) fn of(config: &OpenApiConfig) -> Result<Self, String> {
        let template = |at: &str, name: &str, text: &str| {
            let template = Template::parse(text).map_err(|message| format!("{at}: {message}"))?;
            if template.arguments().next().is_some() {
                return Err(format!("{at}: no argument can stand here, only `${{env:NAME}}`"));
            }
            match literal::refusal(name, &template) {
                Some(message) => Err(format!("{at}: {message}")),
                None => Ok(template),
            }
        };
        let mut access = Self {
            server: None,
            headers: Vec::new(),
            query: Vec::new(),
            schemes: BTreeMap::new(),
            secures_some: OnceLock::new(),
        };
        if let Some(server) = &config.server {
            access.server = Some(template("server", "", server)?);
        }
        for (name, text) in &config.headers {
            let at = format!("headers/{name}");
            let value = template(&at, name, text)?;
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("{at}: it is not the name of a header"))?;
            if CLIENT_HEADERS.contains(&name.as_str()) {
                return Err(format!("{at}: the client sets this header itself; remove it"));
            }
            access.headers.push(HeaderPlan { name, value, form: HeaderForm::Plain });
        }
        for (name, text) in &config.query {
            let value = template(&format!("query/{name}"), name, text)?;
            access.query.push(QueryPlan { name: name.clone(), value, style: QueryStyle::default() });
        }
        for (name, text) in &config.auth {
            // Whatever the scheme is called, its value is a secret.
            let value = template(&format!("auth/{name}"), "secret", text)?;
            access.schemes.insert(name.clone(), value);
        }
        Ok(access)
    }

    /// Where requests of an operation go.
    pub(super) fn base(
        &self,
        config: &OpenApiConfig,
        document: &Document,
        nearest: Option<&Value>,
        origin: Option<&Url>,
    ) -> Result<Template, String> {
        if let Some(server) = &self.server {
            return Ok(server.clone());
        }
        let common = first_server(config, document.get("servers"), origin)?;
        let own = nearest.map(|servers| first_server(config, Some(servers), origin)).transpose()?;
        let own = own.unwrap_or_else(|| common.clone());
        if own.origin() != common.origin() {
            return Err(
                "it is on another server than the rest; set `server` in an import of its own".to_owned()
            );
        }
        Ok(Template::text(own.as_str().trim_end_matches('/')))
    }

    /// The credentials that an operation asks for, as far as the operator gave them.
    pub(super) fn credentials(&self, document: &Document, operation: &Value) -> Result<Credentials, String> {
        let mut found = Credentials::default();
        let schemes: Vec<&str> = match operation.get("security").or_else(|| document.get("security")) {
            None => self.only_scheme(document)?.into_iter().collect(),
            Some(security) => {
                let names = |alternative| -> Vec<&str> {
                    fields(Some(alternative)).map(|(name, _)| name.as_str()).collect()
                };
                let given = |names: &Vec<&str>| {
                    !names.is_empty() && names.iter().all(|name| self.schemes.contains_key(*name))
                };
                items(Some(security)).map(names).find(given).unwrap_or_default()
            }
        };
        for name in schemes {
            let scheme = schemes_of(document).and_then(|schemes| schemes.get(name));
            let scheme = scheme.ok_or_else(|| format!("the document has no security scheme `{name}`"))?;
            found.add(document.resolve(scheme)?, self.schemes[name].clone())?;
        }
        Ok(found)
    }

    /// The scheme of an operation for which the document names none. Many documents define schemes
    /// and forget to say where they hold, so the only credential is meant for it; of several none
    /// is guessed, since the others would be given away.
    fn only_scheme(&self, document: &Document) -> Result<Option<&str>, String> {
        let mut names = self.schemes.keys().map(String::as_str);
        match (names.next(), names.next()) {
            (only, None) => Ok(only),
            // Here the document says elsewhere what needs credentials: this does not.
            (Some(_), Some(_)) if *self.secures_some.get_or_init(|| secures_some(document)) => Ok(None),
            (first, _) => {
                let first = naming::prose(first.unwrap_or_default(), 60);
                Err(format!(
                    "the document names no `security`, and `auth` has several credentials; give only the one \
                     that the API takes, such as `{first}`, or use `headers` or `query`"
                ))
            }
        }
    }

    /// Refuses credentials for schemes that the document does not have: they would never be sent.
    pub(super) fn check_schemes(&self, document: &Document) -> Result<(), String> {
        let known: Vec<&str> = fields(schemes_of(document)).map(|(name, _)| name.as_str()).collect();
        match self.schemes.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) if known.is_empty() => {
                Err(format!("auth/{name}: the document has no security schemes; use `headers` or `query`"))
            }
            Some(name) => {
                let known = naming::prose(&known.join("`, `"), 200);
                Err(format!("auth/{name}: the document has no such security scheme; it has `{known}`"))
            }
            None => Ok(()),
        }
    }
}

/// The first of some servers.
pub(super) fn first_server(
    config: &OpenApiConfig,
    servers: Option<&Value>,
    origin: Option<&Url>,
) -> Result<Url, String> {
    let server = items(servers).next();
    server_url(server.and_then(|server| text(server, "url")).unwrap_or("/"), server, config, origin)
}

/// Whether some operation names a scheme. That one needs none says nothing of the others.
fn secures_some(document: &Document) -> bool {
    let paths = fields(document.get("paths")).map(|(_, item)| item);
    let operations = paths.flat_map(|item| fields(Some(item))).map(|(_, operation)| operation);
    let mut alternatives = operations.flat_map(|operation| items(operation.get("security")));
    alternatives.any(|schemes| fields(Some(schemes)).next().is_some())
}

fn schemes_of(document: &Document) -> Option<&Value> {
    document.get("components")?.get("securitySchemes")
}

impl Credentials {
    fn add(&mut self, scheme: &Value, secret: Template) -> Result<(), String> {
        let authorization = |value, form| HeaderPlan { name: header::AUTHORIZATION, value, form };
        let http = text(scheme, "scheme").map(str::to_ascii_lowercase);
        match (text(scheme, "type"), text(scheme, "in")) {
            (Some("apiKey"), Some(place)) => {
                let name = text(scheme, "name").ok_or("its security scheme has no name")?;
                match place {
                    "query" => self.query.push(QueryPlan {
                        name: name.to_owned(),
                        value: secret,
                        style: QueryStyle::default(),
                    }),
                    "cookie" => self.cookies.push((name.to_owned(), secret)),
                    _ => {
                        let name = HeaderName::from_bytes(name.as_bytes())
                            .map_err(|_| "its security scheme names no header".to_owned())?;
                        self.headers.push(HeaderPlan { name, value: secret, form: HeaderForm::Plain });
                    }
                }
            }
            (Some("http"), _) if http.as_deref() == Some("basic") => {
                self.headers.push(authorization(secret, HeaderForm::Basic));
            }
            (Some("http" | "oauth2" | "openIdConnect"), _) => {
                self.headers.push(authorization(secret.prefixed("Bearer "), HeaderForm::Plain));
            }
            (kind, _) => {
                let kind = naming::prose(kind.unwrap_or("without type"), 40);
                return Err(format!("the security scheme `{kind}` is not supported"));
            }
        }
        Ok(())
    }
}

fn server_url(
    url: &str,
    server: Option<&Value>,
    config: &OpenApiConfig,
    origin: Option<&Url>,
) -> Result<Url, String> {
    let mut filled = url.to_owned();
    for (name, variable) in fields(server.and_then(|server| server.get("variables"))) {
        let given = config.server_variables.get(name).map(String::as_str);
        let value = given.or_else(|| text(variable, "default")).unwrap_or_default();
        filled = filled.replace(&format!("{{{name}}}"), value);
    }
    let unusable = || "the document names no usable server; set `server`".to_owned();
    let parsed = match origin {
        Some(origin) => origin.join(&filled),
        None => Url::parse(&filled),
    };
    let parsed = parsed.map_err(|_| unusable())?;
    let plain = matches!(parsed.scheme(), "http" | "https")
        && parsed.username().is_empty()
        && parsed.password().is_none()
        && parsed.query().is_none()
        && !filled.contains(['{', '}']);
    if plain { Ok(parsed) } else { Err(unusable()) }
}
