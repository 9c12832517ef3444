//! Settings of a project's file that reach further than its own folder, and count once a person has
//! trusted them: all of them together, exactly as they are shown.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use helve_mcp::trust::{Scope, Verdict};
use serde_json::{Map, Value, json};

use super::Origin;
use super::document::{Document, at};
use super::parts::{Problem, is_below};
use super::place::{Lead, OwnFolder};
use super::pointer::{dotted, leaves};
use super::standing::{Standing, standing};
use super::trusted::{Store, look};
use crate::Remark;

/// The name under which they are trusted: there is one list a project.
pub const NAME: &str = "settings";

/// The settings of a project that wait for trust, or have it.
#[derive(Debug, Clone)]
pub struct AskedSettings {
    own: OwnFolder,
    pub asked: Vec<AskedSetting>,
    /// Those that name files and folders of the project alone, and so count as they are: a link can change
    /// that at any time.
    inside: Vec<AskedSetting>,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct AskedSetting {
    pub(super) pointer: String,
    pub value: Value,
    /// Where it names files and folders: which.
    paths: Vec<PathBuf>,
    pub origin: Origin,
}

/// What a project's file says, told apart.
pub(super) struct Sorted {
    /// What waits for trust, or has it.
    pub(super) settings: AskedSettings,
    /// What never counts, by its pointer.
    pub(super) refused: Vec<(String, Remark)>,
}

/// Tells apart what a project's file says, but for parts of it that are wrong. `before` is what counts without it,
/// `set` what was given.
pub(super) fn sort(
    document: &Document,
    wrong: &BTreeMap<String, Vec<Problem>>,
    before: &Value,
    set: &HashMap<String, Origin>,
) -> Sorted {
    let own = OwnFolder::of(&document.path);
    let (mut asked, mut inside, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    leaves(&document.value, String::new(), &mut |pointer, value| {
        if wrong.keys().any(|part| is_below(&pointer, part)) {
            return;
        }
        let former = before.pointer(&pointer).unwrap_or(&Value::Null);
        let named = match standing(&pointer) {
            Standing::Inside | Standing::InsideToo => paths(value),
            Standing::Harmless
            | Standing::OwnOnly
            | Standing::Stricter(_)
            | Standing::Waits(_)
            | Standing::New
            | Standing::Elsewhere => Vec::new(),
        };
        let leads_out = named.iter().any(|path| !own.lead(path).is_inside);
        let waits = match standing(&pointer) {
            Standing::Harmless | Standing::Elsewhere => false,
            Standing::OwnOnly => {
                let why = "only your own helve.toml may say it";
                return refused.push((pointer.clone(), refusal(&pointer, why, document)));
            }
            Standing::Stricter(laxer) if laxer(value, former) => {
                let why = "it would make the gate laxer";
                return refused.push((pointer.clone(), refusal(&pointer, why, document)));
            }
            Standing::Stricter(_) => false,
            Standing::Waits(takes) => takes(value, former),
            Standing::Inside => leads_out || set.contains_key(&pointer),
            Standing::InsideToo => leads_out,
            Standing::New => is_known(&pointer, before),
        };
        if waits || !named.is_empty() {
            let origin = document.origin(&pointer);
            let one = AskedSetting { pointer, value: value.clone(), paths: named, origin };
            if waits { asked.push(one) } else { inside.push(one) }
        }
    });
    Sorted { settings: AskedSettings { own, asked, inside }, refused }
}

fn refusal(pointer: &str, why: &str, document: &Document) -> Remark {
    let key = dotted(pointer);
    Remark {
        found: format!("`{key}` of the project does not count: {why} ({})", at(&document.origin(pointer))),
        fix: "if you want it, write it into your own helve.toml, or give `--set`".to_owned(),
    }
}

/// Whether a thing by name, `/checks/NAME/tool`, takes the place of another.
fn is_known(pointer: &str, before: &Value) -> bool {
    let mut steps = pointer.split('/').skip(1);
    let (Some(section), Some(name)) = (steps.next(), steps.next()) else { return true };
    before.pointer(&format!("/{section}/{name}")).is_some()
}

/// The paths in a value: one, a list, or a list of tables with a `path`.
fn paths(value: &Value) -> Vec<PathBuf> {
    match value {
        Value::String(text) => vec![PathBuf::from(text)],
        Value::Array(items) => items.iter().flat_map(paths).collect(),
        Value::Object(fields) => fields.get("path").map(paths).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

impl AskedSettings {
    /// None, where there is no project.
    pub(super) fn none() -> Self {
        Self { own: OwnFolder::of(Path::new("/")), asked: Vec::new(), inside: Vec::new() }
    }

    /// What of them counts, where this is whether they are trusted.
    pub(super) fn in_force(&self, verdict: &Verdict) -> Self {
        let mut settings = self.clone();
        if *verdict != Verdict::Trusted {
            settings.asked.clear();
        }
        settings
    }

    /// What a process that was started with these uses once it has taken up those that `now` are in force: sections
    /// that it follows as they are now, and all others as it was started.
    pub fn followed_by(&self, now: &Self, followed: &[&str]) -> Self {
        let stays = |one: &&AskedSetting| !followed.iter().any(|section| one.is_in(section));
        let merged = |was: &[AskedSetting], now: &[AskedSetting]| -> Vec<AskedSetting> {
            let was: Vec<_> = was.iter().filter(stays).cloned().collect();
            let is_new = |one: &&AskedSetting| was.iter().all(|other| other.pointer != one.pointer);
            let new: Vec<_> = now.iter().filter(is_new).cloned().collect();
            was.into_iter().chain(new).collect()
        };
        let own = if self.is_empty() { now.own.clone() } else { self.own.clone() };
        let (asked, inside) = (merged(&self.asked, &now.asked), merged(&self.inside, &now.inside));
        Self { own, asked, inside }
    }

    /// Whether nothing of this can change without the configuration.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.inside.is_empty()
    }

    /// Whether they count, as they are at this moment.
    pub fn verdict(&self) -> Verdict {
        if self.inside.iter().flat_map(|asked| self.leads(asked)).any(|lead| !lead.is_inside) {
            return Verdict::Unknown;
        }
        match look(Store::Settings) {
            _ if self.asked.is_empty() => Verdict::Trusted,
            Some(trust) => trust.check_value(&self.scope(), NAME, &self.pinned()),
            None => Verdict::Unknown,
        }
    }

    pub fn scope(&self) -> Scope {
        Scope::Project(self.own.path().to_owned())
    }

    /// What counts of them: their values, and where paths lead at this moment.
    pub fn pinned(&self) -> Value {
        let one = |asked: &AskedSetting| {
            let mut pinned = json!({ "value": asked.value });
            if !asked.paths.is_empty() {
                // A path that is not UTF-8 does not get into a file of TOML.
                let ends = self.leads(asked).map(|lead| lead.end.to_string_lossy().into_owned());
                pinned["leads_to"] = ends.collect::<Vec<_>>().into();
            }
            (asked.key(), pinned)
        };
        Value::Object(self.asked.iter().map(one).collect::<Map<_, _>>())
    }

    /// Each as a person must see it.
    pub fn shown(&self) -> Vec<(String, String)> {
        let text = |asked: &AskedSetting| match asked.paths.is_empty() {
            true => asked.value.as_str().map_or_else(|| asked.value.to_string(), str::to_owned),
            false => self.leads(asked).map(|lead| lead.to_string()).collect::<Vec<_>>().join(", "),
        };
        self.asked.iter().map(|asked| (asked.key(), text(asked))).collect()
    }

    pub(super) fn has(&self, pointer: &str) -> bool {
        self.asked.iter().any(|asked| asked.pointer == pointer)
    }

    /// That they do not count, one by one.
    pub(super) fn remarks(&self) -> impl Iterator<Item = Remark> {
        self.asked.iter().map(|asked| Remark {
            found: format!(
                "`{}` of the project does not count: nobody has trusted it ({})",
                asked.key(),
                at(&asked.origin)
            ),
            fix: "`helve trust` shows what it grants, and asks".to_owned(),
        })
    }

    fn leads(&self, asked: &AskedSetting) -> impl Iterator<Item = Lead> {
        asked.paths.iter().map(|path| self.own.lead(path))
    }
}

impl AskedSetting {
    fn is_in(&self, section: &str) -> bool {
        self.pointer.split('/').nth(1) == Some(section)
    }

    fn key(&self) -> String {
        dotted(&self.pointer)
    }
}
