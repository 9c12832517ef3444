//! The `helve up` that runs: it leaves a note where it listens, and other commands ask it.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use helve_mcp::config::ServerConfig;
use helve_mcp::trust::Scope;
use helve_net::header::AUTHORIZATION;
use helve_net::{HeaderValue, Method, NetPolicy, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Loaded, document, find};
use crate::failure::Failure;
use crate::wire;
use crate::wire::mcp;

/// How long it may take to answer; to restart a server takes longer than to say how it is.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const NOTE_BYTES_MAX: usize = 64 << 10;

/// Where a `helve up` can be reached. Holds no secret, only where one lies.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    address: SocketAddr,
    token_file: PathBuf,
}

/// A note that is taken away when the `helve up` ends.
pub(crate) struct Instance(PathBuf);

impl Instance {
    /// Leaves a note for commands in the same project.
    pub(crate) fn announce(loaded: &Loaded, address: SocketAddr, token_file: &Path) -> Result<Self, Failure> {
        let file = note_file(&mcp::state_folder()?, loaded);
        let token_file = token_file.canonicalize().unwrap_or_else(|_| token_file.to_owned());
        let written = write(&file, &Note { address, token_file });
        written
            .map_err(|error| Failure::failed(format!("cannot write {}", file.display())).because(&error))?;
        Ok(Self(file))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // One that stays leads nowhere, and is found out.
        let _ = fs::remove_file(&self.0);
    }
}

/// Where the `helve up` of this configuration says that it listens.
pub(crate) fn address(loaded: &Loaded) -> Option<SocketAddr> {
    read_note(loaded).map(|note| note.address)
}

/// Where the `helve up` of this configuration listens, if it answers.
pub(crate) fn answering(loaded: &Loaded) -> Option<SocketAddr> {
    Running::find(loaded).map(|running| running.note.address)
}

fn read_note(loaded: &Loaded) -> Option<Note> {
    let file = note_file(&find::mcp_state()?, loaded);
    serde_json::from_str(&document::read_text(&file, NOTE_BYTES_MAX).ok()?).ok()
}

fn note_file(state: &Path, loaded: &Loaded) -> PathBuf {
    let folder = loaded.project_file.as_deref().and_then(Path::parent);
    let scope = folder.map_or(Scope::User, |folder| Scope::Project(folder.to_owned()));
    state.join("instances").join(format!("{}.json", mcp::scope_folder(&scope)))
}

fn write(file: &Path, note: &Note) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = file.with_extension(format!("{}.new", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&new)?.write_all(&serde_json::to_vec(note)?)?;
    fs::rename(&new, file)
}

/// A `helve up` that answers.
pub(super) struct Running {
    note: Note,
    token: String,
    status: Vec<Value>,
}

impl Running {
    /// The one that runs with this configuration, if one does.
    pub(super) fn find(loaded: &Loaded) -> Option<Self> {
        let note = read_note(loaded)?;
        // A token of the person who runs it stands alone on its line.
        let tokens = document::read_text(&note.token_file, 1 << 20).ok()?;
        let alone = |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.contains(' ');
        let token = tokens.lines().map(str::trim).find(alone)?.to_owned();
        let mut running = Self { note, token, status: Vec::new() };
        // It may have been killed; then nobody answers, or somebody else.
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
        let answer = wire::block_on(async { Ok(client.fetch(request).await?) });
        let answer = answer.map_err(|error| refuse(format!("{error:#}")))?;
        let value: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
        match answer.status.is_success() {
            true => Ok(value),
            false => Err(refuse(value["detail"].as_str().unwrap_or("it refused").to_owned())),
        }
    }
}
