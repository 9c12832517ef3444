//! What the tools of servers looked like when they were accepted.
//!
//! A server can show a harmless tool first and another one later under the same name. So each tool
//! is held to what it was when it was first seen, or when a person accepted it: what has changed is
//! blocked until a person has seen the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use helve::json::{canonical, sha256_hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::config::{PinMode, ServerConfig};
use crate::diff::diff_lines;
use crate::names::check_server;
use crate::state_file::{Save, StateError, StateFile};
use crate::text::one_line;

/// What of a tool's definition is pinned, besides where its server is.
const FIELDS: [&str; 6] = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];
/// Most pins of a server, tools that are gone included.
const PINS_MAX: usize = 10_000;
/// Largest definition that is kept to show what changed; of a larger one only the digest is.
const DEFINITION_BYTES_MAX: usize = 128 << 10;

/// What became of a tool since it was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinVerdict {
    /// It was never accepted.
    New,
    /// It is as it was.
    Same,
    /// It is not what was accepted.
    Changed {
        /// What differs, as lines of a unified diff, with hidden characters made visible.
        diff: Vec<String>,
    },
    /// It was accepted, and the server no longer lists it.
    Gone,
}

/// A tool and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The server's name for it.
    pub tool: String,
    /// What became of it.
    pub verdict: PinVerdict,
}

impl Sighting {
    /// Whether the tool may be used.
    pub fn usable(&self) -> bool {
        self.verdict == PinVerdict::Same
    }
}

/// A tool that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The server's name for it.
    pub tool: String,
    /// The digest of what would be accepted.
    pub digest: String,
    /// What differs from what was accepted before, if something was.
    pub diff: Vec<String>,
    /// Whether it was never accepted before.
    pub new: bool,
}

/// The pins of all servers: a folder of files, one for each server. Projects, whose servers may
/// have the same names, have a folder each.
#[derive(Debug, Clone)]
pub struct Pins {
    folder: PathBuf,
    /// Servers whose pins are in another folder. All clones share it, because servers come and go.
    elsewhere: Arc<RwLock<BTreeMap<String, PathBuf>>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct State {
    /// By the server's name for the tool.
    accepted: BTreeMap<String, Pin>,
    /// What was seen and waits for a person.
    waiting: BTreeMap<String, Pin>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    digest: String,
    /// What was pinned, so that a change can be shown.
    definition: Value,
}

impl Pin {
    fn of(command_digest: &str, tool: &Value) -> Self {
        let mut fields: Map<String, Value> =
            FIELDS.iter().filter_map(|field| Some(((*field).to_owned(), tool.get(field)?.clone()))).collect();
        fields.insert("server".to_owned(), json!(command_digest));
        let text = canonical(&Value::Object(fields.clone()));
        let definition = if text.len() > DEFINITION_BYTES_MAX {
            json!({ "name": fields.get("name"), "larger than can be shown, in bytes": text.len() })
        } else {
            Value::Object(fields)
        };
        Self { digest: sha256_hex(text.as_bytes()), definition }
    }

    /// How `other` differs from this one.
    fn diff(&self, other: &Self) -> Vec<String> {
        let mut lines = diff_lines(&self.definition, &other.definition);
        if lines.is_empty() && self.digest != other.digest {
            lines.push(format!("digest {} became {}", self.digest, other.digest));
        }
        lines
    }
}

impl Pins {
    /// The pins in `folder`.
    pub fn open(folder: impl AsRef<Path>) -> Self {
        Self { folder: folder.as_ref().to_owned(), elsewhere: Arc::default() }
    }

    /// The pins of one server are in another folder. Two projects may each have a server of one name,
    /// and a person's own is the same in both.
    #[must_use]
    pub fn server_in(self, server: &str, folder: impl Into<PathBuf>) -> Self {
        self.place(server, folder);
        self
    }

    /// The same for a server that came later, for everybody who has these pins.
    pub fn place(&self, server: &str, folder: impl Into<PathBuf>) {
        let mut elsewhere = self.elsewhere.write().unwrap_or_else(PoisonError::into_inner);
        elsewhere.insert(server.to_owned(), folder.into());
    }

    /// What became of the tools that a server lists now. `command_digest` says what the server is:
    /// [`command_digest`] of its configuration. Changes nothing.
    pub fn check(
        &self,
        server: &str,
        command_digest: &str,
        tools: &[Value],
    ) -> Result<Vec<Sighting>, StateError> {
        let state: State = self.file(server)?.read()?;
        Ok(compare(&state, &seen(command_digest, tools)))
    }

    /// The same, and remembers: what is new is accepted where `mode` says so, and what is not
    /// accepted waits for a person.
    pub fn observe(
        &self,
        server: &str,
        command_digest: &str,
        tools: &[Value],
        mode: PinMode,
    ) -> Result<Vec<Sighting>, StateError> {
        let seen = seen(command_digest, tools);
        let file = self.file(server)?;
        // Nearly always nothing has changed, and then nothing is locked or written.
        let state: State = file.read()?;
        let sightings = compare(&state, &seen);
        let settled = state.waiting.is_empty()
            && sightings.iter().all(|s| matches!(s.verdict, PinVerdict::Same | PinVerdict::Gone));
        if settled {
            return Ok(sightings);
        }
        file.update(|state: &mut State| remember(state, &seen, mode))
    }

    /// The tools of a server that wait for a person.
    pub fn pending(&self, server: &str) -> Result<Vec<Pending>, StateError> {
        let state: State = self.file(server)?.read()?;
        let pending = state.waiting.into_iter().map(|(tool, pin)| {
            let accepted = state.accepted.get(&tool);
            let nothing = Pin { digest: String::new(), definition: json!({}) };
            let diff = accepted.unwrap_or(&nothing).diff(&pin);
            Pending { new: accepted.is_none(), tool, digest: pin.digest, diff }
        });
        Ok(pending.collect())
    }

    /// Accepts tools exactly as they were shown. Where one has changed once more none is accepted.
    pub fn accept(&self, server: &str, shown: &[Pending]) -> Result<(), StateError> {
        self.file(server)?.update(|state: &mut State| {
            for Pending { tool, digest, .. } in shown {
                let Some(pin) = state.waiting.remove(tool).filter(|pin| pin.digest == *digest) else {
                    let shown = one_line(tool, 64);
                    let message =
                        format!("`{shown}` is no longer what was shown; look at the difference again");
                    return Err(StateError::Outdated { message });
                };
                state.accepted.insert(tool.clone(), pin);
            }
            Ok((Save::Yes, ()))
        })
    }

    /// Forgets a server: its tools are new when it is seen again.
    pub fn forget(&self, server: &str) -> Result<(), StateError> {
        self.file(server)?.update(|state: &mut State| {
            *state = State::default();
            Ok((Save::Yes, ()))
        })
    }

    /// A server's name is part of a path, so it must be one.
    fn file(&self, server: &str) -> Result<StateFile, StateError> {
        check_server(server)
            .map_err(|message| StateError::Unusable { path: self.folder.clone(), message })?;
        let elsewhere = self.elsewhere.read().unwrap_or_else(PoisonError::into_inner);
        let folder = elsewhere.get(server).unwrap_or(&self.folder);
        Ok(StateFile::new(folder.join(format!("{server}.json"))))
    }
}

/// The digest of what a server is: its command and arguments, or its address. A tool of another
/// server is another tool.
pub fn command_digest(config: &ServerConfig) -> String {
    // Paths are written so that two never become one, UTF-8 or not.
    let command = config.command.as_ref().map(|command| format!("{command:?}"));
    let place = json!({ "command": command, "args": config.args, "url": config.url });
    sha256_hex(canonical(&place).as_bytes())
}

/// The tools by name. Of two with one name the first counts, as in
/// [`ToolNames`](crate::names::ToolNames).
fn seen(command_digest: &str, tools: &[Value]) -> BTreeMap<String, Pin> {
    let mut seen = BTreeMap::new();
    for tool in tools {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        seen.entry(name.to_owned()).or_insert_with(|| Pin::of(command_digest, tool));
    }
    seen
}

fn compare(state: &State, seen: &BTreeMap<String, Pin>) -> Vec<Sighting> {
    let names: BTreeSet<&String> = state.accepted.keys().chain(seen.keys()).collect();
    let sightings = names.into_iter().filter_map(|tool| {
        let verdict = match (state.accepted.get(tool), seen.get(tool)) {
            (Some(was), Some(now)) if was.digest == now.digest => PinVerdict::Same,
            (Some(was), Some(now)) => PinVerdict::Changed { diff: was.diff(now) },
            (Some(_), None) => PinVerdict::Gone,
            (None, Some(_)) => PinVerdict::New,
            (None, None) => return None,
        };
        Some(Sighting { tool: tool.clone(), verdict })
    });
    sightings.collect()
}

fn remember(
    state: &mut State,
    seen: &BTreeMap<String, Pin>,
    mode: PinMode,
) -> Result<(Save, Vec<Sighting>), StateError> {
    let (accepted_before, waiting_before) = (state.accepted.len(), state.waiting.clone());
    if mode == PinMode::FirstUse {
        for (tool, pin) in seen {
            if !state.accepted.contains_key(tool) {
                state.accepted.insert(tool.clone(), pin.clone());
            }
        }
    }
    if state.accepted.len() > PINS_MAX {
        let message = format!("the server has shown more than {PINS_MAX} tools; forget its pins to go on");
        return Err(StateError::Outdated { message });
    }
    let waits = |(tool, pin): &(&String, &Pin)| {
        state.accepted.get(*tool).is_none_or(|accepted| accepted.digest != pin.digest)
    };
    state.waiting =
        seen.iter().filter(waits).take(PINS_MAX).map(|(tool, pin)| (tool.clone(), pin.clone())).collect();
    let changed = state.accepted.len() != accepted_before || state.waiting != waiting_before;
    Ok((if changed { Save::Yes } else { Save::No }, compare(state, seen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str) -> Value {
        json!({ "name": name, "description": description, "inputSchema": { "type": "object" }, "_meta": { "x": 1 } })
    }

    fn verdicts(sightings: &[Sighting]) -> Vec<(&str, &'static str)> {
        let word = |sighting: &Sighting| match sighting.verdict {
            PinVerdict::New => "new",
            PinVerdict::Same => "same",
            PinVerdict::Changed { .. } => "changed",
            PinVerdict::Gone => "gone",
        };
        sightings.iter().map(|sighting| (sighting.tool.as_str(), word(sighting))).collect()
    }

    #[test]
    fn a_tool_is_held_to_what_it_was_first() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::open(folder.path());
        let first = [tool("a", "reads"), tool("b", "writes")];
        assert_eq!(verdicts(&pins.check("s", "d", &first).unwrap()), [("a", "new"), ("b", "new")]);
        let observed = pins.observe("s", "d", &first, PinMode::FirstUse).unwrap();
        assert_eq!(verdicts(&observed), [("a", "same"), ("b", "same")]);
        let later = [tool("a", "reads and mails your keys"), tool("c", "new")];
        let observed = pins.observe("s", "d", &later, PinMode::FirstUse).unwrap();
        assert_eq!(verdicts(&observed), [("a", "changed"), ("b", "gone"), ("c", "same")]);
        // It stays blocked, however often it is seen, and is free again as it was.
        let observed = pins.observe("s", "d", &later, PinMode::FirstUse).unwrap();
        assert!(!observed[0].usable() && observed[2].usable());
        let observed = pins.observe("s", "d", &first, PinMode::FirstUse).unwrap();
        assert_eq!(verdicts(&observed), [("a", "same"), ("b", "same"), ("c", "gone")]);
        assert!(pins.pending("s").unwrap().is_empty());
    }

    #[test]
    fn a_tool_that_went_away_cannot_come_back_as_another() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::open(folder.path());
        pins.observe("s", "d", &[tool("a", "reads")], PinMode::FirstUse).unwrap();
        pins.observe("s", "d", &[], PinMode::FirstUse).unwrap();
        let back = pins.observe("s", "d", &[tool("a", "other")], PinMode::FirstUse).unwrap();
        assert_eq!(verdicts(&back), [("a", "changed")]);
    }

    #[test]
    fn every_pinned_field_counts_and_the_order_of_keys_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::open(folder.path());
        let was = json!({ "name": "a", "title": "A", "description": "d", "inputSchema": { "x": 1, "y": 2 },
            "outputSchema": {}, "annotations": { "readOnlyHint": true } });
        pins.observe("s", "d", std::slice::from_ref(&was), PinMode::FirstUse).unwrap();
        let one = |command: &str, tool: Value| verdicts(&pins.check("s", command, &[tool]).unwrap())[0].1;
        for field in &FIELDS[1..] {
            let mut now = was.clone();
            now[field] = json!("changed");
            assert_eq!(one("d", now), "changed", "{field}");
        }
        assert_eq!(one("another command", was.clone()), "changed");
        let mut same = was.clone();
        same["inputSchema"] = json!({ "y": 2, "x": 1 });
        same["icons"] = json!([]);
        assert_eq!(one("d", same), "same");
    }

    #[test]
    fn a_person_accepts_exactly_what_was_shown() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::open(folder.path());
        let seen = |description: &str| {
            pins.observe("s", "d", &[tool("a", description), tool("b", "x")], PinMode::Ask).unwrap()
        };
        assert_eq!(verdicts(&seen("one")), [("a", "new"), ("b", "new")]);
        let shown = pins.pending("s").unwrap();
        assert!(shown.iter().all(|pending| pending.new));
        pins.accept("s", &shown).unwrap();
        assert_eq!(verdicts(&seen("one")), [("a", "same"), ("b", "same")]);
        seen("two\u{200b}");
        let shown = pins.pending("s").unwrap();
        let text = shown[0].diff.join("\n");
        assert!(text.contains("-  \"description\": \"one\""), "{text}");
        assert!(text.contains("+  \"description\": \"two\\u{200b}\""), "{text}");
        seen("three");
        let error = pins.accept("s", &shown).unwrap_err();
        assert!(error.to_string().contains("no longer what was shown"), "{error}");
        assert_eq!(verdicts(&seen("two\u{200b}"))[0].1, "changed");
        pins.accept("s", &pins.pending("s").unwrap()).unwrap();
        assert_eq!(verdicts(&seen("two\u{200b}"))[0].1, "same");
        pins.forget("s").unwrap();
        assert_eq!(verdicts(&seen("four"))[0].1, "new");
    }

    #[test]
    fn a_server_is_its_command_and_its_address() {
        let plain = ServerConfig::program("npx", ["server@1"]);
        let mut slower = plain.clone();
        slower.timeout_s = 60;
        assert_eq!(command_digest(&plain), command_digest(&slower));
        assert_ne!(command_digest(&plain), command_digest(&ServerConfig::program("npx", ["server@2"])));
        assert_ne!(command_digest(&plain), command_digest(&ServerConfig::remote("npx")));
    }

    #[test]
    fn the_pins_of_servers_are_apart() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::open(folder.path());
        pins.observe("s", "d", &[tool("a", "reads")], PinMode::FirstUse).unwrap();
        assert_eq!(verdicts(&pins.check("t", "d", &[tool("a", "other")]).unwrap()), [("a", "new")]);
    }

    #[test]
    fn hostile_definitions_are_answered() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::open(folder.path());
        let big = "x".repeat(DEFINITION_BYTES_MAX);
        let tools = [
            json!(null),
            json!({ "name": 1 }),
            json!("text"),
            tool("a", "1"),
            tool("a", "2"),
            tool("big", &big),
        ];
        pins.observe("s", "d", &tools, PinMode::FirstUse).unwrap();
        assert_eq!(
            verdicts(&pins.check("s", "d", &tools).unwrap()),
            [("", "same"), ("a", "same"), ("big", "same")]
        );
        let other = format!("y{}", &big[1..]);
        let sightings = pins.check("s", "d", &[tool("big", &other)]).unwrap();
        let Some(PinVerdict::Changed { diff }) = sightings.last().map(|s| s.verdict.clone()) else {
            panic!()
        };
        assert!(diff[0].contains("digest"), "{diff:?}");
        assert!(std::fs::metadata(folder.path().join("s.json")).unwrap().len() < 10_000);
        for server in ["../x", "", "a/b", "."] {
            assert!(pins.check(server, "d", &[]).is_err(), "{server}");
        }
        let many: Vec<_> = (0..=PINS_MAX).map(|n| tool(&n.to_string(), "")).collect();
        assert!(pins.observe("many", "d", &many, PinMode::FirstUse).is_err());
    }

    #[test]
    fn a_broken_file_blocks_instead_of_starting_anew() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::open(folder.path());
        pins.observe("s", "d", &[tool("a", "reads")], PinMode::FirstUse).unwrap();
        std::fs::write(folder.path().join("s.json"), "{").unwrap();
        assert!(pins.check("s", "d", &[tool("a", "evil")]).is_err());
        assert!(pins.observe("s", "d", &[tool("a", "evil")], PinMode::FirstUse).is_err());
    }
}
