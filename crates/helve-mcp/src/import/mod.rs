//! Servers from the files that people already have: those of Claude Code, Claude Desktop, VS Code
//! and Cursor.
//!
//! Nothing here starts or trusts anything. What is read is a [`ServerConfig`] in which every secret
//! that stood in the file has become a reference, and notes that say what to do about it. No value
//! of a secret leaves this module.

mod entry;
mod inline;
mod jsonc;
mod variables;
mod write;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use helve::json::{self, JsonLimits};
use serde_json::{Map, Value};

pub use write::{insert_server, remove_server};

use crate::config::ServerConfig;
use crate::names::server_name;
use crate::text::one_line;

/// Largest file. Claude Code keeps much else in its own.
const FILE_BYTES_MAX: usize = 32 << 20;
/// Most servers of one file.
const SERVERS_MAX: usize = 200;

/// Whose file it is, and so how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `.mcp.json` of a project.
    ClaudeCode,
    /// `~/.claude.json`: servers of the person, and of each project.
    ClaudeCodeUser,
    /// Claude Desktop's `claude_desktop_config.json`.
    ClaudeDesktop,
    /// `mcp.json` of VS Code.
    VsCode,
    /// `mcp.json` of Cursor.
    Cursor,
}

impl Kind {
    /// The program that writes such files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::ClaudeCodeUser => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::VsCode => "VS Code",
            Self::Cursor => "Cursor",
        }
    }

    /// The kind of a file, from its name and that of its folder.
    pub fn of(path: &Path) -> Option<Self> {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let folder = path.parent().and_then(name).unwrap_or_default();
        match (folder.as_str(), name(path)?.as_str()) {
            (_, ".mcp.json") => Some(Self::ClaudeCode),
            (_, ".claude.json") => Some(Self::ClaudeCodeUser),
            (_, "claude_desktop_config.json") => Some(Self::ClaudeDesktop),
            (".cursor", "mcp.json") => Some(Self::Cursor),
            (_, "mcp.json") => Some(Self::VsCode),
            _ => None,
        }
    }
}

/// Whose word a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// It came with the project: anybody may have written it.
    Project,
    /// It is the person's own.
    User,
}

/// A file that may name servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFile {
    /// Where it is.
    pub path: PathBuf,
    /// How it is read.
    pub kind: Kind,
    /// Whose word it is.
    pub scope: Scope,
    /// The project: what `${workspaceFolder}` stands for.
    pub project: PathBuf,
    /// The person's folder: what `${userHome}` stands for.
    pub home: PathBuf,
}

/// A server that a file names.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Its name with us.
    pub name: String,
    /// Its configuration. No secret stands in it.
    pub config: ServerConfig,
    /// The file that names it.
    pub origin: PathBuf,
    /// Whose word that file is.
    pub scope: Scope,
    /// What a person should know: what to set, what was left out.
    pub notes: Vec<String>,
}

/// A server that a file names and that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name in the file, shortened.
    pub name: String,
    /// Why it was left out.
    pub reason: String,
}

/// What a file names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Import {
    /// Servers that can be used.
    pub servers: Vec<Imported>,
    /// Those that cannot. One bad server does not hide the others.
    pub refused: Vec<Refused>,
}

/// A file that cannot be imported from, or written into.
#[derive(Debug, thiserror::Error)]
#[error("cannot use `{}`: {message}", path.display())]
pub struct ImportError {
    path: PathBuf,
    message: String,
}

/// Where a person's programs keep their settings.
#[derive(Debug, Clone)]
pub struct Homes {
    /// The person's home.
    pub home: PathBuf,
    /// What they have in place of `~/.config`: `XDG_CONFIG_HOME`.
    pub config: Option<PathBuf>,
    /// What Claude Code has in place of the home: `CLAUDE_CONFIG_DIR`.
    pub claude: Option<PathBuf>,
}

impl Homes {
    /// Those of the person who runs this process.
    pub fn of_user() -> Self {
        let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Self {
            home: std::env::home_dir().unwrap_or_default(),
            config: named("XDG_CONFIG_HOME"),
            claude: named("CLAUDE_CONFIG_DIR"),
        }
    }

    /// The settings of programs, on Linux, macOS and Windows.
    fn settings(&self) -> [PathBuf; 3] {
        let config = self.config.clone().unwrap_or_else(|| self.home.join(".config"));
        [config, self.home.join("Library/Application Support"), self.home.join("AppData/Roaming")]
    }
}

/// The files that are there, for a project and a person. The project's come first.
pub fn find(project: &Path, homes: &Homes) -> Vec<ServerFile> {
    let in_project = [
        (".mcp.json", Kind::ClaudeCode),
        (".vscode/mcp.json", Kind::VsCode),
        (".cursor/mcp.json", Kind::Cursor),
    ];
    let mut of_person = vec![
        (homes.claude.as_ref().unwrap_or(&homes.home).join(".claude.json"), Kind::ClaudeCodeUser),
        (homes.home.join(".cursor/mcp.json"), Kind::Cursor),
    ];
    for settings in homes.settings() {
        of_person.push((settings.join("Claude/claude_desktop_config.json"), Kind::ClaudeDesktop));
        of_person.push((settings.join("Code/User/mcp.json"), Kind::VsCode));
    }
    let places = in_project
        .into_iter()
        .map(|(path, kind)| (project.join(path), kind, Scope::Project))
        .chain(of_person.into_iter().map(|(path, kind)| (path, kind, Scope::User)));
    let mut seen = BTreeSet::new();
    places
        .filter(|(path, ..)| path.is_file() && seen.insert(path.clone()))
        .map(|(path, kind, scope)| ServerFile {
            path,
            kind,
            scope,
            project: project.to_owned(),
            home: homes.home.clone(),
        })
        .collect()
}

/// Reads the servers that a file names.
pub fn read(found: &ServerFile) -> Result<Import, ImportError> {
    let refuse = |message: String| ImportError { path: found.path.clone(), message };
    let text = read_file(&found.path).map_err(refuse)?;
    let limits = JsonLimits { bytes: FILE_BYTES_MAX, values: 2_000_000, depth: 64 };
    let document = json::parse(&jsonc::to_json(&text), limits).map_err(|error| refuse(error.to_string()))?;
    if !document.is_object() {
        return Err(refuse("it does not hold a JSON object".to_owned()));
    }
    let servers = servers(found, &document);
    if servers.len() > SERVERS_MAX {
        return Err(refuse(format!("it names more than {SERVERS_MAX} servers")));
    }
    let mut import = Import::default();
    let mut taken = BTreeSet::new();
    let mut reader = entry::Reader::new(found, &document);
    for (raw, entry) in servers {
        let (name, renamed) = server_name(raw, &taken);
        match reader.read(&name, entry) {
            Ok((config, mut notes)) => {
                notes.splice(0..0, renamed);
                taken.insert(name.clone());
                let (origin, scope) = (found.path.clone(), found.scope);
                import.servers.push(Imported { name, config, origin, scope, notes });
            }
            Err(reason) => import.refused.push(Refused { name: one_line(raw, 64), reason }),
        }
    }
    Ok(import)
}

/// The entries of servers, by name. What Claude Code keeps for this project goes before what it
/// keeps for the person.
fn servers<'a>(found: &ServerFile, document: &'a Value) -> Vec<(&'a str, &'a Value)> {
    let key = match found.kind {
        Kind::VsCode => "servers",
        Kind::ClaudeCode | Kind::ClaudeCodeUser | Kind::ClaudeDesktop | Kind::Cursor => "mcpServers",
    };
    let of = |owner: &'a Value| owner.get(key).and_then(Value::as_object);
    let local = match found.kind {
        Kind::ClaudeCodeUser => document
            .get("projects")
            .and_then(|projects| projects.get(found.project.to_string_lossy().as_ref()))
            .and_then(of),
        Kind::ClaudeCode | Kind::ClaudeDesktop | Kind::VsCode | Kind::Cursor => None,
    };
    let local_first: Vec<&Map<String, Value>> = local.into_iter().chain(of(document)).collect();
    let mut seen = BTreeSet::new();
    let all = local_first.into_iter().flatten();
    all.filter(|(name, _)| seen.insert(name.as_str())).map(|(name, entry)| (name.as_str(), entry)).collect()
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    // Asked before opening: to open a pipe would wait for its other end.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a plain file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
