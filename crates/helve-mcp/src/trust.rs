//! Which servers a person trusts, and exactly as they were when they were trusted.
//!
//! A project's configuration can come from anybody. Its servers start only once a person has seen
//! what they would run, and a change of that asks again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use helve::json::{canonical, sha256_hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::config::{ServerConfig, has_plain_secret, is_plain_secret};
use crate::diff::diff_lines;
use crate::state_file::{Save, StateError, StateFile};

/// Settings that change neither what is started or reached nor what it may do. All others count,
/// those that come later too.
const HARMLESS: [&str; 7] =
    ["enabled", "start", "timeout_s", "timeout_total_s", "idle_stop_s", "caller_idle_s", "limits"];

/// Where a configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The person's own.
    User,
    /// That of the project in this folder.
    Project(PathBuf),
}

impl Scope {
    fn key(&self) -> String {
        match self {
            Self::User => "user".to_owned(),
            // Two ways to one folder are one project.
            Self::Project(path) => {
                let real = path.canonicalize().unwrap_or_else(|_| path.clone());
                // Written so that two paths never become one, UTF-8 or not.
                format!("project:{real:?}")
            }
        }
    }
}

/// Whether a server may be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A person has accepted it as it is.
    Trusted,
    /// Nobody has been asked.
    Unknown,
    /// It is not what was accepted.
    Changed {
        /// The digest of what was accepted.
        was: String,
        /// The digest of what it is now.
        now: String,
        /// What differs, line by line; nothing hidden in it, and no secret.
        diff: Vec<String>,
    },
}

/// What a person trusted: a file in the state folder.
#[derive(Debug)]
pub struct Trust {
    file: StateFile,
    state: Result<State, StateError>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct State {
    /// By scope, then by the server's name.
    trusted: BTreeMap<String, BTreeMap<String, Accepted>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accepted {
    digest: String,
    /// What was accepted, so that a change can be shown.
    config: Value,
}

impl Trust {
    /// Reads the file at `path`. Where it cannot be read nothing is trusted, and
    /// [`problem`](Self::problem) says why.
    pub fn open(path: impl AsRef<Path>) -> Self {
        let file = StateFile::new(path.as_ref());
        let state = file.read();
        Self { file, state }
    }

    /// Why nothing is trusted, if the file cannot be read.
    pub fn problem(&self) -> Option<&StateError> {
        self.state.as_ref().err()
    }

    /// Whether a server may be started with this configuration.
    pub fn check(&self, scope: &Scope, name: &str, config: &ServerConfig) -> Verdict {
        match pinned(scope, config) {
            Some(pinned) => self.check_value(scope, name, &pinned),
            None => Verdict::Unknown,
        }
    }

    /// Whether something else than a server, such as a project's hooks, is as it was accepted.
    pub fn check_value(&self, scope: &Scope, name: &str, pinned: &Value) -> Verdict {
        let Ok(state) = &self.state else { return Verdict::Unknown };
        let Some(accepted) = state.trusted.get(&scope.key()).and_then(|servers| servers.get(name)) else {
            return Verdict::Unknown;
        };
        let now = digest_of(pinned);
        if accepted.digest == now {
            return Verdict::Trusted;
        }
        let diff = diff_lines(&accepted.config, pinned);
        Verdict::Changed { was: accepted.digest.clone(), now, diff }
    }

    /// Trusts a server as it is configured.
    pub fn accept(&mut self, scope: &Scope, name: &str, config: &ServerConfig) -> Result<(), StateError> {
        let Some(config) = pinned(scope, config) else {
            let message = format!("`{name}` cannot be trusted: a path in its configuration is not UTF-8");
            return Err(StateError::Outdated { message });
        };
        self.accept_value(scope, name, config)
    }

    /// Trusts something else than a server, as it is.
    pub fn accept_value(&mut self, scope: &Scope, name: &str, config: Value) -> Result<(), StateError> {
        self.file.update(|state: &mut State| {
            state
                .trusted
                .entry(scope.key())
                .or_default()
                .insert(name.to_owned(), Accepted { digest: digest_of(&config), config });
            Ok((Save::Yes, ()))
        })?;
        self.reload();
        Ok(())
    }

    /// Trusts a server no longer. Says whether it was trusted.
    pub fn revoke(&mut self, scope: &Scope, name: &str) -> Result<bool, StateError> {
        let was = self.file.update(|state: &mut State| {
            let servers = state.trusted.get_mut(&scope.key());
            let was = servers.is_some_and(|servers| servers.remove(name).is_some());
            state.trusted.retain(|_, servers| !servers.is_empty());
            Ok((if was { Save::Yes } else { Save::No }, was))
        })?;
        self.reload();
        Ok(was)
    }

    /// What is trusted in a scope, by name.
    pub fn names(&self, scope: &Scope) -> Vec<String> {
        let trusted = self.state.as_ref().ok().and_then(|state| state.trusted.get(&scope.key()));
        trusted.map(|servers| servers.keys().cloned().collect()).unwrap_or_default()
    }

    /// Reads the file again: another process may have changed it.
    pub fn reload(&mut self) {
        self.state = self.file.read();
    }
}

/// The digest of all that counts in a server's configuration. No secret goes into it, only where
/// each lies. There is none for a configuration that cannot be written down, because a path in it is
/// not UTF-8: nobody can trust that.
pub fn digest(config: &ServerConfig) -> Option<String> {
    pinned(&Scope::User, config).map(|value| digest_of(&value))
}

fn digest_of(pinned: &Value) -> String {
    sha256_hex(canonical(pinned).as_bytes())
}

/// What counts in a server's configuration, as JSON; of a project's also where it leads outside of the
/// project, since a link can be changed without it.
fn pinned(scope: &Scope, config: &ServerConfig) -> Option<Value> {
    let mut value = shown(config)?;
    let fields = value.as_object_mut()?;
    fields.retain(|key, _| !HARMLESS.contains(&key.as_str()));
    let leads = leads_outside(scope, config);
    if !leads.is_empty() {
        let leads = leads.iter().map(|(path, end)| Some((path.to_str()?.to_owned(), json!(end.to_str()?))));
        fields.insert("leads_to".to_owned(), Value::Object(leads.collect::<Option<_>>()?));
    }
    Some(value)
}

/// What a server of a project is given that lies outside of the project once links are followed, as its
/// configuration names it and as it is.
pub fn leads_outside(scope: &Scope, config: &ServerConfig) -> Vec<(PathBuf, PathBuf)> {
    let Scope::Project(folder) = scope else { return Vec::new() };
    let own = helve_sandbox::Way::to(folder).end;
    let outside = config.leads().filter(|(_, end)| !end.starts_with(&own));
    outside.map(|(path, end)| (path.to_owned(), end)).collect()
}

/// A server's configuration as it can be shown: in place of a secret that got into it stands a
/// digest.
pub fn shown(config: &ServerConfig) -> Option<Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(config) else { return None };
    hide_settings(&mut fields);
    for caller in
        fields.get_mut("callers").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
    {
        caller.as_object_mut().into_iter().for_each(hide_settings);
    }
    for text in fields.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten() {
        hide(text, |text| is_plain_secret("", text));
    }
    if let Some(url) = fields.get_mut("url") {
        hide(url, has_plain_secret);
    }
    Some(Value::Object(fields))
}

fn hide_settings(fields: &mut Map<String, Value>) {
    for section in ["env", "headers", "oauth"] {
        let Some(Value::Object(settings)) = fields.get_mut(section) else { continue };
        for (name, setting) in settings {
            hide(setting, |text| is_plain_secret(name, text));
        }
    }
}

/// The check of a configuration refuses secrets in it; this file must not be the place where one
/// that got by is kept.
fn hide(value: &mut Value, is_secret: impl Fn(&str) -> bool) {
    if let Some(text) = value.as_str()
        && is_secret(text)
    {
        *value = json!(format!("sha256:{}", &sha256_hex(text.as_bytes())[..16]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Setting;

    fn server() -> ServerConfig {
        let mut server = ServerConfig::program("npx", ["-y", "server"]);
        server.env.insert("MODE".to_owned(), "plain".into());
        server.env.insert("TOKEN".to_owned(), Setting::from_env("TOKEN"));
        server.network = vec!["api.example.com:443".to_owned()];
        server
    }

    fn opened(folder: &tempfile::TempDir) -> (Trust, Scope) {
        (Trust::open(folder.path().join("trust.json")), Scope::Project(folder.path().to_owned()))
    }

    #[test]
    fn nothing_is_trusted_before_somebody_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let (mut trust, scope) = opened(&folder);
        assert_eq!(trust.check(&scope, "a", &server()), Verdict::Unknown);
        trust.accept(&scope, "a", &server()).unwrap();
        assert_eq!(trust.check(&scope, "a", &server()), Verdict::Trusted);
        assert_eq!(trust.check(&scope, "b", &server()), Verdict::Unknown);
        assert_eq!(trust.check(&Scope::User, "a", &server()), Verdict::Unknown);
        assert_eq!(trust.check(&Scope::Project("/elsewhere".into()), "a", &server()), Verdict::Unknown);
        let again = Trust::open(folder.path().join("trust.json"));
        assert_eq!(again.check(&scope, "a", &server()), Verdict::Trusted);
        assert_eq!((again.names(&scope), again.names(&Scope::User)), (vec!["a".to_owned()], vec![]));
        assert!(trust.revoke(&scope, "a").unwrap());
        assert!(!trust.revoke(&scope, "a").unwrap());
        assert_eq!(trust.check(&scope, "a", &server()), Verdict::Unknown);
    }

    #[test]
    fn every_change_of_what_it_runs_or_may_do_asks_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut trust, scope) = opened(&folder);
        trust.accept(&scope, "a", &server()).unwrap();
        type Change = fn(&mut ServerConfig);
        let changes: [(&str, Change); 12] = [
            ("command", |s| s.command = Some("sh".into())),
            ("args", |s| s.args.push("--evil".to_owned())),
            ("args order", |s| s.args.reverse()),
            ("cwd", |s| s.cwd = Some("/".into())),
            ("a plain value", |s| drop(s.env.insert("MODE".to_owned(), "--require evil.js".into()))),
            ("a new variable", |s| drop(s.env.insert("NODE_OPTIONS".to_owned(), "x".into()))),
            ("a reference", |s| drop(s.env.insert("TOKEN".to_owned(), Setting::from_env("AWS_SECRET")))),
            ("write", |s| s.write.push("/".into())),
            ("network", |s| s.network.push("*:443".to_owned())),
            ("confined", |s| s.confined = false),
            ("sampling", |s| s.sampling = true),
            ("url", |s| s.url = Some("https://evil.example".to_owned())),
        ];
        for (what, change) in changes {
            let mut changed = server();
            change(&mut changed);
            let Verdict::Changed { was, now, diff } = trust.check(&scope, "a", &changed) else {
                panic!("a change of {what} was not seen");
            };
            assert_ne!(was, now);
            assert!(diff.iter().any(|line| line.starts_with(['+', '-'])), "{what}: {diff:?}");
        }
        let mut harmless = server();
        harmless.timeout_s = 5;
        harmless.enabled = false;
        assert_eq!(trust.check(&scope, "a", &harmless), Verdict::Trusted);
    }

    #[test]
    fn a_diff_shows_what_hides() {
        let folder = tempfile::tempdir().unwrap();
        let (mut trust, scope) = opened(&folder);
        trust.accept(&scope, "a", &server()).unwrap();
        let mut changed = server();
        changed.args.push("\u{1b}[2K\u{202e}x".to_owned());
        let Verdict::Changed { diff, .. } = trust.check(&scope, "a", &changed) else { panic!() };
        let text = diff.join("\n");
        assert!(text.contains("202e") && !text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }

    #[test]
    fn a_secret_that_got_by_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (mut trust, scope) = opened(&folder);
        let mut careless = server();
        careless.env.insert("API_KEY".to_owned(), "hushhush".into());
        careless.args.push("--key=ghp_hushhushhushhush".to_owned());
        trust.accept(&scope, "a", &careless).unwrap();
        assert_eq!(trust.check(&scope, "a", &careless), Verdict::Trusted);
        assert!(!std::fs::read_to_string(folder.path().join("trust.json")).unwrap().contains("hushhush"));
        careless.env.insert("API_KEY".to_owned(), "otherhush".into());
        let verdict = trust.check(&scope, "a", &careless);
        assert!(matches!(verdict, Verdict::Changed { .. }) && !format!("{verdict:?}").contains("hushhush"));
    }

    #[test]
    fn a_broken_file_trusts_nothing_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let (mut trust, scope) = opened(&folder);
        trust.accept(&scope, "a", &server()).unwrap();
        std::fs::write(folder.path().join("trust.json"), "{\"version\":1,\"state\":{\"trusted\":[]}}")
            .unwrap();
        let (mut trust, _) = opened(&folder);
        assert_eq!(trust.check(&scope, "a", &server()), Verdict::Unknown);
        assert!(trust.problem().unwrap().to_string().contains("is broken"));
        assert!(trust.accept(&scope, "a", &server()).is_err());
    }

    #[test]
    fn a_link_that_leads_elsewhere_asks_again_and_starts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        ["project", "a", "b"].iter().for_each(|name| std::fs::create_dir(root.join(name)).unwrap());
        let link = root.join("project/data");
        std::os::unix::fs::symlink("../a", &link).unwrap();
        let scope = Scope::Project(root.join("project"));
        let mut trust = Trust::open(root.join("trust.json"));
        let mut config = ServerConfig { write: vec![link.clone()], ..server() };
        trust.accept(&scope, "a", &config).unwrap();
        assert_eq!(trust.check(&scope, "a", &config), Verdict::Trusted);
        assert_eq!(leads_outside(&scope, &config), [(link.clone(), root.join("a"))]);
        config.within = Some(vec![root.join("project"), root.join("a")]);
        assert_eq!(config.leads_astray(), None);
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("../b", &link).unwrap();
        assert!(matches!(trust.check(&scope, "a", &config), Verdict::Changed { .. }));
        assert_eq!(config.leads_astray(), Some((link.as_path(), root.join("b"))));
    }

    #[test]
    fn two_ways_to_a_folder_are_one_project() {
        let folder = tempfile::tempdir().unwrap();
        let (mut trust, scope) = opened(&folder);
        trust.accept(&scope, "a", &server()).unwrap();
        let roundabout = Scope::Project(folder.path().join("."));
        assert_eq!(trust.check(&roundabout, "a", &server()), Verdict::Trusted);
    }

    #[test]
    fn what_cannot_be_written_down_is_not_trusted() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let (mut trust, scope) = opened(&folder);
        let path = |byte: u8| PathBuf::from(std::ffi::OsStr::from_bytes(&[b'/', byte]));
        let mut strange = server();
        strange.cwd = Some(path(0xff));
        assert!(digest(&strange).is_none());
        assert!(trust.accept(&scope, "a", &strange).is_err());
        assert_eq!(trust.check(&scope, "a", &strange), Verdict::Unknown);
        trust.accept(&Scope::Project(path(0xff)), "a", &server()).unwrap();
        assert_eq!(trust.check(&Scope::Project(path(0xfe)), "a", &server()), Verdict::Unknown);
    }

    #[test]
    fn a_secret_of_a_caller_that_got_into_the_configuration_is_not_kept_either() {
        let mut server = ServerConfig::remote("https://a.example");
        server.credentials = crate::config::Credentials::Caller;
        let mut caller = crate::config::CallerConfig::default();
        caller.headers.insert("Authorization".to_owned(), "Bearer hush".into());
        let before = digest(&server).unwrap();
        server.callers.insert("ada".to_owned(), caller);
        assert_ne!(digest(&server).unwrap(), before, "it counts");
        assert!(!shown(&server).unwrap().to_string().contains("hush"));
    }
}
