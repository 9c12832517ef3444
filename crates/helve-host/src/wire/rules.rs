//! Everyday rules: from files to the runtime, and back when an answer changes them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use helve::BoxFuture;
use helve::gate::Stance;
use helve::permission::{Destination, PermissionSet, PermissionUpdate};
use helve::permissions::{CanUseTool, PermissionKeeper, PermissionOptions};
use helve_tools::hooks::AskUrl;
use helve_tools::web::client::LazyClient;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::config::file;
use crate::config::{Loaded, find, rules};
use crate::error::HostError;

/// What a runtime starts with.
pub(super) fn options(loaded: &Loaded) -> Result<PermissionOptions, HostError> {
    let places = rules::places(loaded)?.sets;
    let keeper: Arc<dyn PermissionKeeper> = Arc::new(RuleFiles::of(loaded));
    let can_use_tool = match &loaded.config.approvals.ask_url {
        Some(url) => {
            let asked = AskUrl::new(url, LazyClient::new(loaded.config.net.clone()));
            let asked =
                asked.map_err(|why| HostError::usage("`approvals.ask_url` cannot be used").detail(why))?;
            Some(Arc::new(asked) as Arc<dyn CanUseTool>)
        }
        None => None,
    };
    Ok(PermissionOptions { places, keeper: Some(keeper), can_use_tool })
}

/// The files that rules are kept in.
pub struct RuleFiles {
    user: Option<PathBuf>,
    project: Option<PathBuf>,
    local: Option<PathBuf>,
    /// One change at a time.
    turn: Mutex<()>,
}

impl RuleFiles {
    pub fn of(loaded: &Loaded) -> Self {
        Self {
            user: find::user_file(),
            project: loaded.project_file.clone(),
            local: rules::local_file(loaded),
            turn: Mutex::default(),
        }
    }

    /// Makes a change in the file that it names, and says how its rules are now.
    pub fn change(&self, update: &PermissionUpdate) -> Result<PermissionSet, HostError> {
        let _turn = self.turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let place = update.destination();
        let path = self.path(place)?;
        let before = self.rules(place)?;
        let mut set = before.clone();
        set.apply(update).map_err(|error| HostError::usage(error.to_string()))?;
        file::change(path, |text| write_rules(text, &set, path))?;
        // What a person just had written they need not be asked about, unless there was more in it.
        if place == Destination::ProjectSettings && (before.is_empty() || self.trusts(&before)?) {
            self.trust(&set)?;
        }
        Ok(set)
    }

    /// The rules of a place, as its file has them.
    pub fn rules(&self, place: Destination) -> Result<PermissionSet, HostError> {
        let path = self.path(place)?;
        if path.is_file() { rules::of_file(Some(path)) } else { Ok(PermissionSet::default()) }
    }

    fn path(&self, place: Destination) -> Result<&Path, HostError> {
        let path = match place {
            Destination::UserSettings => &self.user,
            Destination::ProjectSettings => &self.project,
            Destination::LocalSettings => &self.local,
            Destination::Session | Destination::CliArg => &None,
        };
        path.as_deref().ok_or_else(|| {
            HostError::usage(format!("there is no file for the rules of the {}", place.as_str()))
                .hint("a project has a helve.toml; `helve init` makes one")
        })
    }

    /// Whether these rules of the project are trusted.
    fn trusts(&self, set: &PermissionSet) -> Result<bool, HostError> {
        let Some(local) = self.local.as_deref().filter(|file| file.is_file()) else { return Ok(false) };
        let text = std::fs::read_to_string(local).unwrap_or_default();
        let document = parse(&text, local)?;
        let trusted = document.get("trusted_rules").and_then(Item::as_str);
        Ok(trusted == Some(&*rules::digest(set)))
    }

    /// Trusts the project's rules as they are.
    pub fn trust(&self, set: &PermissionSet) -> Result<(), HostError> {
        let (Some(local), Some(project)) = (&self.local, &self.project) else {
            return Err(HostError::usage("there is no project here, so there is nothing to trust"));
        };
        file::change(local, |text| {
            let mut document = parse(text, local)?;
            document["project"] = value(project.display().to_string());
            document["trusted_rules"] = value(rules::digest(set));
            Ok(document.to_string())
        })
    }

    /// Trusts the project's rules no longer. Says whether any were trusted.
    pub(crate) fn distrust(&self) -> Result<bool, HostError> {
        let Some(local) = self.local.as_deref().filter(|file| file.is_file()) else { return Ok(false) };
        let mut was = false;
        file::change(local, |text| {
            let mut document = parse(text, local)?;
            was = document.remove("trusted_rules").is_some();
            Ok(document.to_string())
        })?;
        Ok(was)
    }
}

impl PermissionKeeper for RuleFiles {
    fn keep(&self, update: &PermissionUpdate) -> BoxFuture<'_, Result<PermissionSet, String>> {
        let kept = self.change(update).map_err(|failure| failure.to_string());
        Box::pin(std::future::ready(kept))
    }
}

fn parse(text: &str, path: &Path) -> Result<DocumentMut, HostError> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        HostError::usage(format!("{} is not valid TOML", path.display())).because(&error)
    })
}

/// Writes the section `[rules]` and leaves the rest as it is.
fn write_rules(text: &str, set: &PermissionSet, path: &Path) -> Result<String, HostError> {
    let mut document = parse(text, path)?;
    if !document.contains_key("rules") {
        let mut section = Table::new();
        section.decor_mut().set_prefix(format!("{}\n", file::take_ending(&mut document)));
        document.insert("rules", Item::Table(section));
    }
    let section = &mut document["rules"];
    let broken = || HostError::usage(format!("`rules` in {} is no table", path.display()));
    let section = section.as_table_like_mut().ok_or_else(broken)?;
    for stance in [Stance::Allow, Stance::Ask, Stance::Deny] {
        put_list(section, stance.as_str(), set.rules(stance).iter().map(ToString::to_string));
    }
    put_list(section, "directories", set.directories.iter().cloned());
    match set.mode {
        Some(mode) => drop(section.insert("mode", value(mode.as_str()))),
        None => drop(section.remove("mode")),
    }
    Ok(document.to_string())
}

fn put_list(section: &mut dyn toml_edit::TableLike, key: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        section.remove(key);
        return;
    }
    let mut list = Array::new();
    items.for_each(|item| list.push_formatted(toml_edit::Value::from(item).decorated("\n    ", "")));
    list.set_trailing("\n");
    list.set_trailing_comma(true);
    section.insert(key, value(list));
}
