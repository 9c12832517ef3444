//! Asks the `helve up` that runs with this configuration.

use std::time::Duration;

use helve_host::config::{Loaded, document};
use helve_host::running::{self, Note};
use helve_host::wire::mcp;
use helve_mcp::config::ServerConfig;
use helve_net::header::AUTHORIZATION;
use helve_net::{HeaderValue, Method, NetPolicy, Request};
use serde_json::Value;

use crate::blocking::block_on;
use crate::failure::Failure;

/// How long it may take to answer; to restart a server takes longer than to say how it is.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A `helve up` that answers.
pub(super) struct Running {
    note: Note,
    token: String,
    status: Vec<Value>,
}

impl Running {
    /// The one that runs with this configuration, if one does.
    pub(super) fn find(loaded: &Loaded) -> Option<Self> {
        let note = running::note(&loaded.journal_path)?;
        // A token of the person who runs it stands alone on its line.
        let tokens = document::read_text(&note.token_file, 1 << 20).ok()?;
        let alone = |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.contains(' ');
        let token = tokens.lines().map(str::trim).find(alone)?.to_owned();
        let mut running = Self { note, token, status: Vec::new() };
        // It lives, so that nobody else listens there; but it may be about to end.
        let answer = running.ask(Method::GET, "servers").ok()?;
        running.status = answer.as_array()?.clone();
        Some(running)
    }

    /// How its servers are.
    pub(super) fn status(&self) -> &[Value] {
        &self.status
    }

    /// Stops a server and connects it anew; how it is then.
    pub(super) fn restart(&self, name: &str) -> Result<Value, Failure> {
        self.ask(Method::POST, &format!("servers/{name}/restart"))
    }

    fn ask(&self, method: Method, what: &str) -> Result<Value, Failure> {
        let address = self.note.address;
        let refuse =
            |why: String| Failure::failed(format!("the `helve up` at {address} did not do it")).detail(why);
        // On all addresses means on this machine too.
        let host =
            if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let url = format!("http://{host}:{}/v1/mcp/{what}", address.port());
        let url = url::Url::parse(&url).map_err(|error| refuse(error.to_string()))?;
        let client = mcp::client(&NetPolicy::default(), &[&ServerConfig::remote(url.as_str())])?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", self.token))
            .map_err(|_| refuse("its token is no token".to_owned()))?;
        bearer.set_sensitive(true);
        let request = Request::new(method, url).header(AUTHORIZATION, bearer).timeout(ANSWER_MAX);
        let answer = block_on(async { Ok(client.fetch(request).await?) });
        let answer = answer.map_err(|error| refuse(format!("{error:#}")))?;
        let value: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
        match answer.status.is_success() {
            true => Ok(value),
            false => Err(refuse(value["detail"].as_str().unwrap_or("it refused").to_owned())),
        }
    }
}
