//! What the configuration has and cannot be used: tools, APIs and MCP servers. Each is set aside with what is wrong
//! and where, and the rest works.
//!
//! INVARIANT: nothing answers in the place of what is broken (`helve::registry::Broken`), and what is made of it is
//! broken too.

use std::path::PathBuf;

use helve::registry::{Broken, Covers};
use helve::{DefinitionError, Layer};
use serde_json::{Value, json};

use crate::Remark;
use crate::config::document::at;
use crate::config::origin::short;
use crate::config::{Loaded, Origin, ToolEntry, ToolKind};

/// A tool, an API or a server that cannot be used.
#[derive(Debug, Clone)]
pub struct BrokenPart {
    pub what: What,
    /// Its name, or what stands before the names of its tools.
    pub name: String,
    aliases: Vec<String>,
    pub layer: Layer,
    pub origin: Origin,
    /// What is wrong, each a line with its place.
    pub lines: Vec<String>,
}

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Tool,
    Api,
    Server,
}

impl What {
    fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Api => "API",
            Self::Server => "MCP server",
        }
    }
}

impl BrokenPart {
    /// An entry with these problems, each a line with its place.
    pub(super) fn of(entry: &ToolEntry, lines: Vec<String>) -> Self {
        let what = match entry.kind {
            ToolKind::OpenApi => What::Api,
            ToolKind::Http | ToolKind::Program | ToolKind::Composed(_) => What::Tool,
        };
        let name = entry.label().to_owned();
        let aliases = entry.names().filter(|one| *one != name).map(str::to_owned).collect();
        Self { what, name, aliases, layer: entry.layer, origin: entry.origin(), lines }
    }

    /// A tool that ships with Helve and cannot be made as it is configured.
    pub(super) fn built_in(name: &str, origin: Origin, error: &dyn std::error::Error) -> Self {
        let lines = vec![format!("{}  {error}", at(&origin))];
        let (name, aliases) = (name.to_owned(), Vec::new());
        Self { what: What::Tool, name, aliases, layer: Layer::BuiltIn, origin, lines }
    }

    /// One tool of an entry that its definition refuses.
    pub(super) fn refused(entry: &ToolEntry, error: &DefinitionError) -> Self {
        let lines = error.problems.iter().map(|problem| {
            let key = if problem.at.is_empty() { String::new() } else { format!("{}: ", problem.at) };
            format!("{}  `{}`: {key}{}", at(&entry.origin_of(&problem.at)), error.tool, problem.message)
        });
        Self::of(entry, lines.collect())
    }

    /// Whether a tool of this name would be of it.
    pub fn has(&self, tool: &str) -> bool {
        let is_below = |rest: &str| rest.starts_with(['/', '_']);
        match self.what {
            What::Tool => self.names().any(|name| name == tool),
            What::Api | What::Server => tool.strip_prefix(&self.name).is_some_and(is_below),
        }
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(&self.aliases)
    }

    /// What its caller is told: where to look, and nothing of what stands there.
    fn reason(&self) -> String {
        let whose = match self.what {
            What::Tool => "its definition".to_owned(),
            What::Api | What::Server => {
                format!("the definition of the {} `{}`", self.what.as_str(), self.name)
            }
        };
        // Callers may be far away: in which folder it stands is not theirs to know.
        let origin = match &self.origin {
            Origin::File { path, line, column } => {
                let path = path.file_name().map(PathBuf::from).unwrap_or_default();
                Origin::File { path, line: *line, column: *column }
            }
            Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => self.origin.clone(),
        };
        format!("{whose} at {} cannot be used; {}", at(&origin), fix_of(&origin))
    }

    /// What to do about it.
    pub fn fix(&self) -> String {
        fix_of(&self.origin)
    }

    /// For a person: all that is wrong.
    pub fn remark(&self) -> Remark {
        let found =
            format!("the {} `{}` is broken: {}", self.what.as_str(), self.name, self.lines.join("; "));
        Remark { found, fix: self.fix() }
    }

    /// For a program.
    pub fn document(&self) -> Value {
        json!({ "name": self.name, "layer": self.layer, "broken": { "what": self.what.as_str(),
            "origin": self.origin, "problems": self.lines, "fix": self.fix() } })
    }

    fn in_registry(&self) -> Vec<Broken> {
        let one = |covers: Covers| Broken { layer: self.layer, covers, reason: self.reason() };
        match self.what {
            What::Tool => self.names().map(|name| one(Covers::Tool(name.clone()))).collect(),
            What::Api | What::Server => vec![one(Covers::Namespace(self.name.clone()))],
        }
    }
}

fn fix_of(origin: &Origin) -> String {
    match origin {
        Origin::File { path, .. } => format!("`helve tools lint {}` says what to mend", short(path)),
        Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => "`helve doctor` says why".to_owned(),
    }
}

/// The same as a registry takes them.
pub fn in_registry(broken: &[BrokenPart]) -> Vec<Broken> {
    broken.iter().flat_map(BrokenPart::in_registry).collect()
}

/// The MCP servers that cannot be used.
pub(super) fn servers(loaded: &Loaded) -> Vec<BrokenPart> {
    let layer_of = |origin: &Origin| match origin {
        Origin::File { path, .. } if Some(path) == loaded.user_file.as_ref() => Layer::Org,
        Origin::File { .. } | Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => Layer::Project,
    };
    let part = |(name, server): (&String, &crate::config::BrokenServer)| BrokenPart {
        what: What::Server,
        name: name.clone(),
        aliases: Vec::new(),
        layer: layer_of(&server.origin),
        origin: server.origin.clone(),
        lines: server.problems.iter().map(|problem| problem.line()).collect(),
    };
    loaded.broken_servers.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_read_the_name_of_the_file_and_not_where_it_stands() {
        let path = PathBuf::from("/srv/customers/acme/helve.toml");
        let part = BrokenPart {
            what: What::Tool,
            name: "bad".to_owned(),
            aliases: Vec::new(),
            layer: Layer::Project,
            origin: Origin::File { path, line: 7, column: 1 },
            lines: Vec::new(),
        };
        let reason = part.reason();
        assert!(reason.contains("at helve.toml:7:1") && reason.contains("lint helve.toml`"), "{reason}");
        assert!(!reason.contains("acme"), "{reason}");
        assert!(
            part.fix().contains("/srv/customers/acme/helve.toml"),
            "the person who mends it must find it"
        );
    }
}
