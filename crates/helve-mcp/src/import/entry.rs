//! One server of a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::ServerFile;
use super::inline::{Extract, Secrets};
use super::variables::Variables;
use crate::config::{OAuthConfig, ServerConfig, TransportChoice};
use crate::text::one_line;

/// Most arguments, variables and headers each.
const ITEMS_MAX: usize = 1_000;
/// What says nothing about how to reach the server.
const IGNORED: [&str; 8] =
    ["gallery", "version", "dev", "description", "alwaysAllow", "autoApprove", "icon", "instructions"];

/// Reads the servers of one file, one after the other.
pub(super) struct Reader<'a> {
    variables: Variables<'a>,
    secrets: Secrets,
}

impl<'a> Reader<'a> {
    pub(super) fn new(found: &'a ServerFile, document: &'a Value) -> Self {
        Self { variables: Variables::new(found, document), secrets: Secrets::default() }
    }

    /// The configuration of a server, and what a person should know; or why it cannot be used.
    pub(super) fn read(&mut self, name: &str, entry: &Value) -> Result<(ServerConfig, Vec<String>), String> {
        let fields = entry.as_object().ok_or("its entry is not a JSON object")?;
        let mut notes = Vec::new();
        let raw = Raw::read(fields, &self.variables, &mut notes)?;
        let mut extract = Extract { secrets: &mut self.secrets, server: name, notes: &mut notes };
        let config = raw.into_config(&mut extract);
        let problems: Vec<String> = config.check(name).iter().map(ToString::to_string).collect();
        if !problems.is_empty() {
            return Err(problems.join("; "));
        }
        Ok((config, notes))
    }
}

/// What stands in an entry, with our variables; secrets may still be in it, so it has no `Debug`.
struct Raw {
    command: Option<PathBuf>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    transport: TransportChoice,
    oauth: Option<OAuthRaw>,
    enabled: bool,
}

struct OAuthRaw {
    client_id: Option<String>,
    client_secret: Option<String>,
    scopes: Vec<String>,
    callback_port: Option<u16>,
}

impl Raw {
    fn read(
        fields: &Map<String, Value>,
        variables: &Variables<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Self, String> {
        let mut text = |key: &str| -> Result<Option<String>, String> {
            match fields.get(key) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) => variables.translate(text, notes).map(Some),
                Some(_) => Err(format!("`{key}` is not a text")),
            }
        };
        let command = text("command")?.map(PathBuf::from);
        let cwd = text("cwd")?.map(PathBuf::from);
        let url = match text("url")? {
            Some(url) => Some(url),
            None => text("serverUrl")?,
        };
        let args = texts(fields, "args")?;
        let args = args.iter().map(|arg| variables.translate(arg, notes)).collect::<Result<_, _>>()?;
        let env = pairs(fields, "env", variables, notes)?;
        let headers = pairs(fields, "headers", variables, notes)?;
        let transport = transport(fields, url.is_some())?;
        let oauth = oauth(fields, variables, notes)?;
        let enabled = fields.get("disabled").and_then(Value::as_bool) != Some(true)
            && fields.get("enabled").and_then(Value::as_bool) != Some(false);
        note_left_out(fields, notes);
        let (args, env, cwd, headers, oauth) = match (&command, &url) {
            // Programs write empty or stale fields of the other form.
            (None, Some(_)) => (Vec::new(), BTreeMap::new(), None, headers, oauth),
            (Some(_), _) => (args, env, cwd, BTreeMap::new(), None),
            (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
        };
        Ok(Self { command, args, env, cwd, url, headers, transport, oauth, enabled })
    }

    fn into_config(self, extract: &mut Extract<'_>) -> ServerConfig {
        let env = self.env.into_iter().map(|(name, text)| {
            let setting = extract.variable(&name, &text);
            (name, setting)
        });
        let env = env.collect();
        let headers = self.headers.into_iter().map(|(name, text)| {
            let setting = extract.header("headers", &name, &text);
            (name, setting)
        });
        let headers = headers.collect();
        let oauth = self.oauth.map(|raw| OAuthConfig {
            client_id: raw.client_id,
            client_secret: raw.client_secret.map(|secret| extract.header("oauth", "client_secret", &secret)),
            client_metadata_url: None,
            scopes: raw.scopes,
            callback_port: raw.callback_port,
        });
        ServerConfig {
            command: self.command,
            args: extract.args(&self.args),
            env,
            cwd: self.cwd,
            url: self.url.map(|url| extract.url(&url)),
            headers,
            transport: self.transport,
            oauth,
            enabled: self.enabled,
            ..ServerConfig::default()
        }
    }
}

fn texts(fields: &Map<String, Value>, key: &str) -> Result<Vec<String>, String> {
    let items = match fields.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(format!("`{key}` is not a list")),
    };
    if items.len() > ITEMS_MAX {
        return Err(format!("`{key}` has more than {ITEMS_MAX} items"));
    }
    items
        .iter()
        .map(|item| plain_text(item).ok_or_else(|| format!("`{key}` holds something that is no text")))
        .collect()
}

fn pairs(
    fields: &Map<String, Value>,
    key: &str,
    variables: &Variables<'_>,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, String>, String> {
    let items = match fields.get(key) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(items)) => items,
        Some(_) => return Err(format!("`{key}` is not a JSON object")),
    };
    if items.len() > ITEMS_MAX {
        return Err(format!("`{key}` has more than {ITEMS_MAX} items"));
    }
    // In VS Code, null takes a variable away that would be inherited. Here none is.
    let given = items.iter().filter(|(_, value)| !value.is_null());
    given
        .map(|(name, value)| {
            let text = plain_text(value).ok_or_else(|| format!("`{key}` holds something that is no text"))?;
            Ok((name.clone(), variables.translate(&text, notes)?))
        })
        .collect()
}

fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn transport(fields: &Map<String, Value>, remote: bool) -> Result<TransportChoice, String> {
    let kind = fields.get("type").or_else(|| fields.get("transport")).and_then(Value::as_str);
    match kind.filter(|_| remote).map(str::to_ascii_lowercase).as_deref() {
        None | Some("stdio" | "remote" | "") => Ok(TransportChoice::Auto),
        Some("http" | "streamable-http" | "streamablehttp" | "streamable_http") => Ok(TransportChoice::Http),
        Some("sse") => Ok(TransportChoice::Sse),
        Some("ws" | "websocket") => Ok(TransportChoice::Ws),
        Some(other) => Err(format!("its type `{}` is not known", one_line(other, 32))),
    }
}

/// Claude Code writes `oauth`, Cursor `auth`, each in its own letters.
fn oauth(
    fields: &Map<String, Value>,
    variables: &Variables<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<OAuthRaw>, String> {
    let Some(oauth) = fields.get("oauth").or_else(|| fields.get("auth")).and_then(Value::as_object) else {
        return Ok(None);
    };
    let mut text = |keys: [&str; 2]| -> Result<Option<String>, String> {
        let found = keys.iter().find_map(|key| oauth.get(*key)).and_then(Value::as_str);
        found.map(|text| variables.translate(text, notes)).transpose()
    };
    let client_id = text(["clientId", "CLIENT_ID"])?;
    let client_secret = text(["clientSecret", "CLIENT_SECRET"])?;
    let port = oauth.get("callbackPort").and_then(Value::as_u64);
    let callback_port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    Ok(Some(OAuthRaw { client_id, client_secret, scopes: texts(oauth, "scopes")?, callback_port }))
}

fn note_left_out(fields: &Map<String, Value>, notes: &mut Vec<String>) {
    const READ: [&str; 13] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "serverUrl",
        "headers",
        "type",
        "transport",
        "oauth",
        "auth",
        "disabled",
        "enabled",
    ];
    for key in
        fields.keys().filter(|key| !READ.contains(&key.as_str()) && !IGNORED.contains(&key.as_str())).take(20)
    {
        let shown = one_line(key, 40);
        notes.push(match key.as_str() {
            "envFile" => "its `envFile` is not read; set those variables in Helve's environment and refer to them in `env`".to_owned(),
            "headersHelper" => "its `headersHelper`, a program that makes headers, is not run; set `headers`".to_owned(),
            _ => format!("its `{shown}` was left out"),
        });
    }
}
