//! Names that strangers chose, made fit for the registry: accepted, renamed where everybody can see
//! it, or refused with a reason.

use std::collections::{BTreeMap, BTreeSet};

use helve::ToolName;
use helve::name::NAME_CHARS_MAX;

use crate::text::one_line;

/// Longest name of a server. It is part of the name of each of its tools.
pub const SERVER_CHARS_MAX: usize = 64;

/// Tools that Helve itself offers where there are many.
pub const RESERVED_TOOLS: [&str; 3] = ["search_tools", "describe_tool", "call_tool"];

/// What stands for reading a server's resources and prompts, in records and rules.
pub(crate) const RESERVED_READERS: [&str; 2] = ["resources.read", "prompts.get"];

/// Names that no server may have: they stand for Helve's own.
const RESERVED_SERVERS: [&str; 2] = ["helve", "mcp"];

/// How much of a refused name is shown.
const SHOWN_CHARS_MAX: usize = 64;

/// What became of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is used as it is.
    Accepted(ToolName),
    /// It is used under another name.
    Renamed {
        /// The name it has with us.
        name: ToolName,
        /// Why, for a person.
        reason: String,
    },
    /// It is not used.
    Refused {
        /// Why, for a person.
        reason: String,
    },
}

impl Decision {
    /// The name it has with us, if it has one.
    pub fn name(&self) -> Option<&ToolName> {
        match self {
            Self::Accepted(name) | Self::Renamed { name, .. } => Some(name),
            Self::Refused { .. } => None,
        }
    }
}

/// Decides on the names of one server's tools, in the order in which the server lists them. Of two
/// that look alike the first stays.
///
/// ```
/// use helve_mcp::names::{Decision, ToolNames};
/// let mut names = ToolNames::new("github", ["gitlab"]);
/// assert_eq!(names.decide("create_issue").name().unwrap().as_str(), "github/create_issue");
/// assert_eq!(names.decide("issues/list").name().unwrap().as_str(), "github/issues_list");
/// assert!(matches!(names.decide("create-issue"), Decision::Refused { .. }));
/// ```
#[derive(Debug)]
pub struct ToolNames {
    namespace: String,
    /// The namespaces of others, folded.
    others: BTreeSet<String>,
    /// What was accepted: the folded name, and the server's own.
    taken: BTreeMap<String, String>,
}

impl ToolNames {
    /// Names for the tools of a server with this namespace (empty for none), next to others with
    /// theirs.
    pub fn new<'a>(namespace: &str, others: impl IntoIterator<Item = &'a str>) -> Self {
        let others =
            others.into_iter().filter(|other| *other != namespace && !other.is_empty()).map(fold).collect();
        Self { namespace: namespace.to_owned(), others, taken: BTreeMap::new() }
    }

    /// What becomes of a tool that its server calls `raw`.
    pub fn decide(&mut self, raw: &str) -> Decision {
        match self.admit(raw) {
            Ok((name, None)) => Decision::Accepted(name),
            Ok((name, Some(reason))) => Decision::Renamed { name, reason },
            Err(reason) => Decision::Refused { reason },
        }
    }

    fn admit(&mut self, raw: &str) -> Result<(ToolName, Option<String>), String> {
        check_characters("a tool's name", raw, NAME_CHARS_MAX)?;
        let mut plain = to_grammar(raw);
        let is_reserved = RESERVED_READERS.contains(&&*plain);
        if is_reserved {
            plain = plain.replace('.', "_");
        }
        let shown = one_line(raw, SHOWN_CHARS_MAX);
        self.check_reserved(&plain, &shown)?;
        let folded = fold(&plain);
        if folded.is_empty() {
            return Err(format!("the name `{shown}` has neither letters nor digits"));
        }
        if let Some(first) = self.taken.get(&folded) {
            return Err(if first == raw {
                format!("the server lists `{shown}` twice; the first stays")
            } else {
                format!(
                    "the name `{shown}` looks like `{}`, which the server lists before it",
                    one_line(first, SHOWN_CHARS_MAX)
                )
            });
        }
        let full =
            if self.namespace.is_empty() { plain.clone() } else { format!("{}/{plain}", self.namespace) };
        let name = ToolName::new(&full).map_err(|error| match full.len() > NAME_CHARS_MAX {
            true => format!("with its namespace, `{shown}` is longer than {NAME_CHARS_MAX} characters; choose a shorter `namespace`"),
            false => error.to_string(),
        })?;
        self.taken.insert(folded, raw.to_owned());
        let reason = (plain != raw).then(|| match is_reserved {
            true => format!("`{shown}` stands for reading what the server has besides tools"),
            false => format!(
                "the server calls it `{shown}`; only A-Z, a-z, 0-9, `.`, `_` and `-` may stand in a name"
            ),
        });
        Ok((name, reason))
    }

    /// Without a namespace, a name could stand for a tool of Helve's own or of another server.
    fn check_reserved(&self, plain: &str, shown: &str) -> Result<(), String> {
        if !self.namespace.is_empty() {
            return Ok(());
        }
        if RESERVED_TOOLS.iter().any(|reserved| fold(reserved) == fold(plain)) {
            return Err(format!(
                "`{shown}` is the name of a tool of Helve's own; give the server a `namespace`"
            ));
        }
        // `github__issue` is how a client sees `github/issue`.
        let shadowed = plain.match_indices("__").any(|(at, _)| self.others.contains(&fold(&plain[..at])));
        if shadowed {
            return Err(format!(
                "`{shown}` would pass for a tool of another server's namespace; give the server a `namespace`"
            ));
        }
        Ok(())
    }
}

/// What is wrong with the names of servers, by name. Of two that look alike the first stays.
pub fn check_servers<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(&'a str, String)> {
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    let mut wrong = Vec::new();
    for name in names {
        if let Err(reason) = check_server(name) {
            wrong.push((name, reason));
        } else if let Some(first) = taken.get(&fold(name)) {
            wrong.push((name, format!("the name `{name}` looks like `{first}`; rename one of them")));
        } else {
            taken.insert(fold(name), name);
        }
    }
    wrong
}

/// What is wrong with the name of a server, if anything is.
pub fn check_server(name: &str) -> Result<(), String> {
    check_characters("a server's name", name, SERVER_CHARS_MAX)?;
    let shown = one_line(name, SHOWN_CHARS_MAX);
    if to_grammar(name) != name {
        return Err(format!("the name `{shown}` may hold only A-Z, a-z, 0-9, `.`, `_` and `-`"));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !name.ends_with(|c: char| c.is_ascii_alphanumeric())
    {
        return Err(format!("the name `{shown}` must begin and end with a letter or a digit"));
    }
    // Clients see `a/b` as `a__b`: another `__` would make two names one.
    if name.contains("__") {
        return Err(format!(
            "the name `{shown}` may not hold `__`, which stands between a server and its tool"
        ));
    }
    if RESERVED_SERVERS.iter().any(|reserved| fold(reserved) == fold(name)) {
        return Err(format!("the name `{shown}` stands for Helve's own; choose another"));
    }
    Ok(())
}

/// A name that a server can have, made from one that another program let it have, besides those that
/// are taken; and why it differs, if it does.
pub fn server_name(raw: &str, taken: &BTreeSet<String>) -> (String, Option<String>) {
    let is_free =
        |name: &str| check_server(name).is_ok() && !taken.iter().any(|other| fold(other) == fold(name));
    if is_free(raw) {
        return (raw.to_owned(), None);
    }
    let mut base = to_grammar(raw);
    base.truncate(SERVER_CHARS_MAX - 8);
    while base.contains("__") {
        base = base.replace("__", "_");
    }
    let trimmed = base.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let base = if trimmed.is_empty() { "server" } else { trimmed };
    let numbered = (2..).map(|number: u32| format!("{base}-{number}"));
    let name = std::iter::once(base.to_owned())
        .chain(numbered)
        .find(|name| is_free(name))
        .unwrap_or_else(|| base.to_owned());
    let reason = format!(
        "renamed from `{}`, which cannot be a server's name here or is taken",
        one_line(raw, SHOWN_CHARS_MAX)
    );
    (name, Some(reason))
}

fn check_characters(what: &str, raw: &str, chars_max: usize) -> Result<(), String> {
    if raw.trim().is_empty() {
        return Err(format!("{what} is empty"));
    }
    if raw.len() > chars_max {
        let shown = one_line(raw, 24);
        return Err(format!("{what} has {} bytes and may have {chars_max}: `{shown}`", raw.len()));
    }
    let shown = one_line(raw, SHOWN_CHARS_MAX);
    if raw.chars().any(char::is_control) {
        return Err(format!("{what} holds control characters: `{shown}`"));
    }
    if let Some(strange) = raw.chars().find(|c| !c.is_ascii()) {
        let point = u32::from(strange);
        return Err(format!(
            "{what} holds U+{point:04X}, which is not ASCII and could pass for another letter: `{shown}`"
        ));
    }
    Ok(())
}

/// Everything that a name may not hold becomes `_`. The text must be ASCII to stay readable.
fn to_grammar(raw: &str) -> String {
    let plain: String = raw
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' })
        .collect();
    // A dot alone is a path, not a name.
    if plain.bytes().all(|b| b == b'.') { plain.replace('.', "_") } else { plain }
}

/// What two names that look alike have in common.
fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(names: &mut ToolNames, raw: &str) -> String {
        match names.decide(raw) {
            Decision::Refused { reason } => reason,
            other => panic!("{raw:?} was let in: {other:?}"),
        }
    }

    #[test]
    fn honest_names_stay() {
        let mut names = ToolNames::new("fs", []);
        for raw in ["read_file", "write-file", "a.b", "X", "search_tools", "other__tool"] {
            assert_eq!(names.decide(raw), Decision::Accepted(ToolName::new(format!("fs/{raw}")).unwrap()));
        }
        assert_eq!(ToolNames::new("", []).decide("read").name().unwrap().as_str(), "read");
        assert_eq!(ToolNames::new("org/fs", []).decide("read").name().unwrap().as_str(), "org/fs/read");
    }

    #[test]
    fn hostile_names_are_refused_with_a_reason() {
        let mut names = ToolNames::new("fs", []);
        names.decide("read_file");
        for (raw, expected) in [
            ("", "is empty"),
            (" \t", "is empty"),
            ("read_file", "twice"),
            ("ReadFile", "looks like `read_file`"),
            ("read.file", "looks like"),
            ("read file", "looks like"),
            ("re\u{1b}[0mad", "control characters"),
            ("r\u{435}ad", "U+0435"),
            ("read\u{200b}", "U+200B"),
            ("\u{202e}daer", "U+202E"),
            ("搜索", "not ASCII"),
            ("---", "neither letters nor digits"),
            ("..", "neither letters nor digits"),
        ] {
            let reason = refusal(&mut names, raw);
            assert!(reason.contains(expected), "{raw:?}: {reason}");
            assert!(!reason.chars().any(|c| c.is_control()), "{reason:?}");
        }
        assert!(refusal(&mut names, &"x".repeat(129)).contains("129 bytes"));
        assert!(refusal(&mut names, &"x".repeat(126)).contains("shorter `namespace`"));
        assert!(refusal(&mut names, &"x".repeat(1 << 20)).len() < 200);
    }

    #[test]
    fn names_outside_the_grammar_are_renamed_visibly() {
        let mut names = ToolNames::new("fs", []);
        let Decision::Renamed { name, reason } = names.decide("files/read: all") else { panic!() };
        assert_eq!(name.as_str(), "fs/files_read__all");
        assert!(reason.contains("`files/read: all`"), "{reason}");
    }

    #[test]
    fn without_a_namespace_nothing_shadows_what_is_not_ones_own() {
        let mut names = ToolNames::new("", ["github", "my-files", ""]);
        for raw in [
            "search_tools",
            "Call-Tool",
            "github__create",
            "GitHub__create",
            "my_files__x",
            "github/create_x",
        ] {
            if raw.contains('/') {
                // The slash is gone, so it is not in that namespace.
                assert_eq!(names.decide(raw).name().unwrap().as_str(), "github_create_x");
            } else {
                refusal(&mut names, raw);
            }
        }
        assert!(names.decide("own__create").name().is_some());
    }

    #[test]
    fn names_of_servers_are_checked() {
        for bad in ["", "a b", "a/b", "..", "-a", "a_", "a__b", "helve", "MCP", "h\u{435}y", &"x".repeat(65)]
        {
            assert!(check_server(bad).is_err(), "{bad:?}");
        }
        let wrong = check_servers(["files", "Files", "my-files", "my.files", "a b"]);
        let names: Vec<_> = wrong.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["Files", "my.files", "a b"]);
    }

    proptest! {
        #[test]
        fn every_name_gets_an_answer_and_no_two_the_same(raws in prop::collection::vec(".{0,20}", 0..20)) {
            let mut names = ToolNames::new("ns", ["other"]);
            let given: Vec<_> = raws.iter().filter_map(|raw| names.decide(raw).name().cloned()).collect();
            let distinct: BTreeSet<_> = given.iter().map(|name| fold(name.as_str())).collect();
            prop_assert_eq!(given.len(), distinct.len());
            prop_assert!(given.iter().all(|name| name.namespace() == Some("ns")));
        }

        #[test]
        fn any_server_can_be_given_a_name(raw in ".{0,80}") {
            let taken = BTreeSet::from(["server".to_owned(), "a".to_owned()]);
            let (name, _) = server_name(&raw, &taken);
            prop_assert!(check_server(&name).is_ok(), "{}", name);
            prop_assert!(!taken.contains(&name));
        }
    }
}
