//! What is wrong with the configuration of a server, all of it at once.

use std::collections::BTreeMap;
use std::path::Path;

use helve::{Problem, ToolName};
use url::Url;

use super::literal::{has_plain_secret, is_plain_secret, is_secret_value};
use super::reference::{Reference, Setting, Source};
use super::secrets::is_variable_name;
use super::{Credentials, McpConfig, Place, ServerConfig};
use crate::names::{check_server, check_servers};

/// How many servers one configuration may name.
const SERVERS_MAX: usize = 1_000;
/// Longest text of the configuration of a server.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Most arguments, variables and headers each.
const ITEMS_MAX: usize = 1_000;
/// Names that Helve itself sets begin with this.
const OWN_PREFIX: &str = "HELVE_";
const HINT: &str = "a secret does not belong in the configuration; refer to it with `{ env = \"NAME\" }`, \
                    `{ file = \"PATH\" }` or `{ keyring = \"SERVICE/USER\" }`";
const HINT_TEXT: &str = "a secret does not belong in the configuration; put it into an environment variable and write \
                         `${env:NAME}`";

impl McpConfig {
    /// What is wrong with the servers, each at `servers/NAME/…`.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Problems::default();
        if self.servers.len() > SERVERS_MAX {
            problems.add("servers", format!("there are more than {SERVERS_MAX}"));
            return problems.0;
        }
        for (name, reason) in check_servers(self.servers.keys().map(String::as_str)) {
            problems.add(&format!("servers/{name}"), reason);
        }
        for (name, server) in &self.servers {
            let found = server.check(name).into_iter().filter(|problem| !problem.at.is_empty());
            problems.0.extend(
                found.map(|problem| Problem { at: format!("servers/{name}/{}", problem.at), ..problem }),
            );
        }
        problems.0
    }
}

impl ServerConfig {
    /// What is wrong with it as the configuration of the server `name`. No value of a setting stands
    /// in the answer.
    pub fn check(&self, name: &str) -> Vec<Problem> {
        let mut problems = Problems::default();
        if let Err(reason) = check_server(name) {
            problems.add("", reason);
        }
        match self.place() {
            Some(Place::Command(command)) => self.check_program(command, &mut problems),
            Some(Place::Url(url)) => self.check_remote(url, &mut problems),
            None => problems.add("command", "a server has either `command` or `url`"),
        }
        self.check_namespace(&mut problems);
        self.check_callers(&mut problems);
        if self.timeout_s == 0 || self.timeout_total_s < self.timeout_s {
            problems.add("timeout_total_s", "it must be at least `timeout_s`, and that at least 1");
        }
        problems.0
    }

    fn check_program(&self, command: &Path, problems: &mut Problems) {
        let command = command.to_string_lossy();
        if command.is_empty() {
            problems.add("command", "it is empty; give a program");
        } else if command.contains('\0') {
            problems.add("command", "it contains a NUL character");
        } else if !command.contains(['/', '\\']) && command.contains(char::is_whitespace) {
            problems.add("command", "no shell reads it; put the program here and its arguments into `args`");
        }
        if self.args.len() > ITEMS_MAX {
            problems.add("args", format!("there are more than {ITEMS_MAX}"));
        }
        for (index, arg) in self.args.iter().take(ITEMS_MAX).enumerate() {
            if let Some(reason) = text_problem(arg) {
                problems.add(&format!("args/{index}"), reason);
            } else if is_secret_value(arg) {
                problems.add(&format!("args/{index}"), HINT_TEXT);
            }
        }
        check_variables("env", &self.env, problems);
        let remote_only = [("headers", !self.headers.is_empty()), ("oauth", self.oauth.is_some())]
            .into_iter()
            .filter(|(_, is)| *is);
        remote_only.for_each(|(at, _)| problems.add(at, "only a server with `url` has it"));
    }

    fn check_remote(&self, url: &str, problems: &mut Problems) {
        match Url::parse(url) {
            _ if text_problem(url).is_some() => {
                problems.add("url", "it is too long or contains a NUL character")
            }
            Err(_) => problems.add("url", "it is not an address such as `https://mcp.example.com/mcp`"),
            Ok(parsed) => {
                if !matches!(parsed.scheme(), "http" | "https" | "ws" | "wss") {
                    problems.add("url", "it must begin with `https://`, `http://`, `wss://` or `ws://`");
                } else if !parsed.has_host() || url_host(url).contains("${") {
                    problems.add("url", "it must name its host");
                }
                if !parsed.username().is_empty() || parsed.password().is_some() {
                    problems.add("url", "it may not hold a user or a password; use `headers`");
                }
                if has_plain_secret(url) {
                    problems.add("url", HINT_TEXT);
                }
            }
        }
        check_headers("headers", &self.headers, problems);
        if let Some(secret) = self.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref()) {
            let settings = BTreeMap::from([("client_secret".to_owned(), secret.clone())]);
            check_settings("oauth", &settings, problems);
        }
        let of_program = [
            ("args", !self.args.is_empty()),
            ("env", !self.env.is_empty()),
            ("cwd", self.cwd.is_some()),
            ("read", !self.read.is_empty()),
            ("write", !self.write.is_empty()),
            ("network", !self.network.is_empty()),
        ];
        for (at, _) in of_program.into_iter().filter(|(_, is)| *is) {
            problems.add(at, "only a server with `command` has it");
        }
    }

    fn check_callers(&self, problems: &mut Problems) {
        if self.credentials == Credentials::Shared {
            if !self.callers.is_empty() {
                problems.add("callers", "only a server with `credentials = \"caller\"` has it");
            }
            return;
        }
        let shared = "it would be the same for all callers; put what is secret into `callers`";
        for (at, text) in
            self.url.iter().map(|url| ("url", url)).chain(self.args.iter().map(|arg| ("args", arg)))
        {
            if text.contains("${env:") {
                problems.add(at, shared);
            }
        }
        if self.callers.len() > ITEMS_MAX {
            problems.add("callers", format!("there are more than {ITEMS_MAX}"));
        }
        let is_program = self.command.is_some();
        for (principal, caller) in self.callers.iter().take(ITEMS_MAX) {
            let at = format!("callers/{principal}");
            if principal.is_empty() || text_problem(principal).is_some() {
                problems.add("callers", "one has a name that no principal can have");
            }
            match (is_program, caller.headers.is_empty(), caller.env.is_empty()) {
                (true, _, true) => problems.add(&at, "it has no `env`, and so nothing of this caller's own"),
                (true, false, _) => problems.add(&at, "`headers` are for a server with `url`"),
                (false, true, _) => {
                    problems.add(&at, "it has no `headers`, and so nothing of this caller's own")
                }
                (false, _, false) => problems.add(&at, "`env` is for a server with `command`"),
                (true, true, false) => check_variables(&format!("{at}/env"), &caller.env, problems),
                (false, false, true) => check_headers(&format!("{at}/headers"), &caller.headers, problems),
            }
        }
    }

    fn check_namespace(&self, problems: &mut Problems) {
        let Some(namespace) = self.namespace.as_deref().filter(|namespace| !namespace.is_empty()) else {
            return;
        };
        if namespace.matches('/').count() > 1 || ToolName::new(namespace).is_err() || namespace.contains("__")
        {
            problems.add(
                "namespace",
                "it reads `ns` or `org/ns`, of A-Z, a-z, 0-9, `.`, `_` and `-`, without `__`",
            );
        }
    }
}

/// The host as it is written, before a parser has had its way with it.
fn url_host(url: &str) -> &str {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    after.split(['/', '?', '#']).next().unwrap_or(after)
}

fn check_variables(at: &str, variables: &BTreeMap<String, Setting>, problems: &mut Problems) {
    for name in variables.keys() {
        if !is_variable_name(name) {
            problems.add(&format!("{at}/{name}"), "a name has letters, digits and `_`, and no digit first");
        } else if name.starts_with(OWN_PREFIX) {
            problems.add(&format!("{at}/{name}"), "names that begin with `HELVE_` are set by Helve");
        }
    }
    check_settings(at, variables, problems);
}

fn check_headers(at: &str, headers: &BTreeMap<String, Setting>, problems: &mut Problems) {
    for name in headers.keys() {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            problems.add(at, "one has a name that no header can have");
        }
    }
    check_settings(at, headers, problems);
}

fn check_settings(at: &str, settings: &BTreeMap<String, Setting>, problems: &mut Problems) {
    if settings.len() > ITEMS_MAX {
        problems.add(at, format!("there are more than {ITEMS_MAX}"));
        return;
    }
    for (name, setting) in settings {
        let message = match setting {
            Setting::Text(text) => text_problem(text).or_else(|| is_plain_secret(name, text).then_some(HINT)),
            Setting::Reference(Reference { source, prefix }) => match source {
                Source::Env(name) if !is_variable_name(name) => {
                    Some("`env` is the name of a variable: letters, digits and `_`, and no digit first")
                }
                Source::File(path) if path.as_os_str().is_empty() => Some("`file` is empty"),
                Source::Env(_) | Source::File(_) | Source::Keyring { .. } => {
                    text_problem(prefix).or_else(|| is_secret_value(prefix).then_some(HINT))
                }
            },
        };
        if let Some(message) = message {
            problems.add(&format!("{at}/{name}"), message);
        }
    }
}

fn text_problem(text: &str) -> Option<&'static str> {
    if text.len() > TEXT_BYTES_MAX {
        Some("it is longer than 64 KiB")
    } else if text.contains('\0') {
        Some("it contains a NUL character")
    } else {
        None
    }
}

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, at: &str, message: impl Into<String>) {
        self.0.push(Problem { at: at.to_owned(), message: message.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let server: ServerConfig = toml::from_str(text).unwrap();
        server.check("a").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_that_is_wrong_is_said() {
        for (text, expected) in [
            ("", "either `command` or `url`"),
            ("command = 'x'\nurl = 'https://a.example'", "either `command` or `url`"),
            ("command = ''", "empty"),
            ("command = 'npx -y x'", "no shell"),
            ("command = 'x'\nheaders.A = 'b'", "headers: only a server with `url`"),
            ("command = 'x'\nenv.'A B' = 'b'", "letters, digits"),
            ("command = 'x'\nenv.HELVE_X = 'b'", "set by Helve"),
            ("command = 'x'\nenv.A_TOKEN = 'hush'", "env/A_TOKEN: a secret does not belong"),
            ("command = 'x'\nenv.A = { env = '1' }", "name of a variable"),
            ("command = 'x'\nargs = ['--key', 'ghp_0123456789hushhush']", "args/1: a secret does not belong"),
            ("command = 'x'\nnamespace = 'a b'", "namespace"),
            ("command = 'x'\nnamespace = 'a__b'", "namespace"),
            ("command = 'x'\nnamespace = 'a/b/c'", "namespace"),
            ("command = 'x'\ntimeout_s = 30\ntimeout_total_s = 3", "at least `timeout_s`"),
            ("url = 'file:///etc/passwd'", "must begin with"),
            ("url = 'javascript:alert(1)'", "must begin with"),
            ("url = 'a.example'", "not an address"),
            ("url = 'https://u:hush@a.example'", "user or a password"),
            ("url = 'https://${env:H}.example/'", "address"),
            ("url = 'https://a.example/?api_key=hush'", "url: a secret does not belong"),
            (
                "url = 'https://a.example'\nheaders.Authorization = 'Bearer hush'",
                "headers/Authorization: a secret",
            ),
            ("url = 'https://a.example'\nheaders.'A B' = 'x'", "no header can have"),
            ("url = 'https://a.example'\noauth = { client_secret = 'hush' }", "oauth/client_secret"),
            ("url = 'https://a.example'\nargs = ['x']", "args: only a server with `command`"),
            (
                "url = 'https://a.example'\ncallers.ada.headers.X = 'y'",
                "callers: only a server with `credentials",
            ),
            (
                "url = 'https://a.example/${env:T}'\ncredentials = 'caller'",
                "url: it would be the same for all callers",
            ),
            (
                "command = 'x'\nargs = ['--key=${env:T}']\ncredentials = 'caller'",
                "args: it would be the same for all",
            ),
            (
                "url = 'https://a.example'\ncredentials = 'caller'\ncallers.ada = {}",
                "callers/ada: it has no `headers`",
            ),
            (
                "url = 'https://a.example'\ncredentials = 'caller'\ncallers.ada = { headers = { X = 'y' }, env = { A = 'b' } }",
                "callers/ada: `env` is for",
            ),
            (
                "command = 'x'\ncredentials = 'caller'\ncallers.ada.headers.X = 'y'",
                "callers/ada: it has no `env`",
            ),
            (
                "url = 'https://a.example'\ncredentials = 'caller'\ncallers.ada.headers.Authorization = 'Bearer hush'",
                "callers/ada/headers/Authorization: a secret",
            ),
            ("command = 'x'\ncredentials = 'caller'\ncallers.ada.env.HELVE_X = 'b'", "set by Helve"),
            (
                "url = 'https://a.example'\ncredentials = 'caller'\ncallers.'' = { headers = { X = 'y' } }",
                "no principal",
            ),
        ] {
            let said = problems(text).join("\n");
            assert!(said.contains(expected), "{text}: {said}");
            assert!(!said.contains("hush"), "{said}");
        }
    }

    #[test]
    fn references_are_right() {
        for text in [
            "command = 'x'\nenv.A_TOKEN = { env = 'T' }",
            "command = 'x'\nenv.A_TOKEN = '${env:T}'\nargs = ['--key=${env:T}']",
            "url = 'https://a.example/?api_key=${env:T}'\nheaders.Authorization = 'Bearer ${env:T}'",
            "url = 'https://a.example'\ncredentials = 'caller'\ncallers.'ada@b'.headers.X-Key = { env = 'T' }",
            "command = 'x'\ncredentials = 'caller'\ncallers.ada.env.A_TOKEN = { file = 'f' }",
            "url = 'ws://127.0.0.1:80/'\noauth = { client_secret = { keyring = 'a/b' } }",
        ] {
            assert_eq!(problems(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn names_of_servers_are_checked_together() {
        let config: McpConfig =
            toml::from_str("[servers.a-b]\ncommand='x'\n[servers.a_b]\ncommand=''").unwrap();
        let at: Vec<_> = config.check().into_iter().map(|problem| problem.at).collect();
        assert_eq!(at, ["servers/a_b", "servers/a_b/command"]);
    }
}
