//! Secrets that stand in a file are left there: each becomes a reference to a variable, and a note
//! says which to set.

use std::collections::BTreeMap;

use helve::json::sha256_hex;
use url::Url;

use super::variables::variable_name;
use crate::config::{Setting, could_be_secret, embedded_secret, is_secret_name};
use crate::text::one_line;

/// Shorter texts are no tokens.
const TOKEN_CHARS_MIN: usize = 20;
/// Most secrets in one text.
const SECRETS_MAX: usize = 16;

/// Takes secrets out of one file's servers.
#[derive(Default)]
pub(super) struct Secrets {
    /// Names of variables that were given out, each with the digest of what it stands for: one
    /// name never stands for two secrets.
    given: BTreeMap<String, String>,
}

/// Takes secrets out of one server.
pub(super) struct Extract<'a> {
    pub(super) secrets: &'a mut Secrets,
    pub(super) server: &'a str,
    pub(super) notes: &'a mut Vec<String>,
}

impl Extract<'_> {
    /// A variable of the environment. Those keep their name.
    pub(super) fn variable(&mut self, name: &str, text: &str) -> Setting {
        if let Some(reference) = reference(text) {
            return reference;
        }
        let secret = is_secret_name(name) && could_be_secret(text);
        if secret || looks_random(text) {
            let variable = self.give(&[name], text, &format!("env.{name}"));
            return Setting::from_env(variable);
        }
        Setting::Text(self.embedded(text, &[name], &format!("env.{name}")))
    }

    /// A header, or another setting with a secret. What stands before its secret, such as `Bearer `, stays.
    pub(super) fn header(&mut self, section: &str, name: &str, text: &str) -> Setting {
        if let Some(reference) = reference(text) {
            return reference;
        }
        let at = format!("{section}.{name}");
        let (prefix, secret) = match text.split_once(' ') {
            Some((scheme, rest)) if is_scheme(scheme) => (format!("{scheme} "), rest),
            _ => (String::new(), text),
        };
        if secret.contains("${env:") {
            return Setting::Text(self.embedded(text, &[self.server, name], &at));
        }
        if (is_secret_name(name) && could_be_secret(secret)) || looks_random(secret) {
            let variable = self.give(&[self.server, name], secret, &at);
            return Setting::from_env(variable).with_prefix(&prefix);
        }
        Setting::Text(self.embedded(text, &[self.server, name], &at))
    }

    /// Takes secrets out of command-line arguments.
    pub(super) fn args(&mut self, args: &[String]) -> Vec<String> {
        let mut cleaned = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| args.get(before)).map_or("", String::as_str);
            cleaned.push(self.arg(before, arg, &format!("args[{index}]")));
        }
        cleaned
    }

    fn arg(&mut self, before: &str, arg: &str, at: &str) -> String {
        if arg.contains("${env:") {
            return self.embedded(arg, &[self.server, "arg"], at);
        }
        // `--token VALUE`
        if before.starts_with('-')
            && is_secret_name(before)
            && !before.contains('=')
            && !arg.starts_with('-')
            && could_be_secret(arg)
        {
            return format!("${{env:{}}}", self.give(&[self.server, before], arg, at));
        }
        // `--token=VALUE`, `TOKEN=VALUE`, `Authorization: Bearer VALUE`
        for separator in ['=', ':'] {
            let Some((name, value)) = arg.split_once(separator) else { continue };
            if name.contains([' ', '/']) || !is_secret_name(name) || !could_be_secret(value) {
                continue;
            }
            let secret = value.trim_start();
            let secret = match secret.split_once(' ') {
                Some((scheme, rest)) if is_scheme(scheme) => rest,
                _ => secret,
            };
            let kept = &arg[..arg.len() - secret.len()];
            return format!("{kept}${{env:{}}}", self.give(&[self.server, name], secret, at));
        }
        if looks_random(arg) {
            return format!("${{env:{}}}", self.give(&[self.server, "arg"], arg, at));
        }
        self.embedded(arg, &[self.server, "arg"], at)
    }

    /// An address: parts of its path and of its query, and no user or password.
    pub(super) fn url(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Ok(mut url) = Url::parse(&text)
            && (!url.username().is_empty() || url.password().is_some())
            && url.set_username("").is_ok()
            && url.set_password(None).is_ok()
        {
            url.as_str().clone_into(&mut text);
            self.notes
                .push("the user and password of `url` were left out; put them into `headers`".to_owned());
        }
        let (address, query) = match text.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (text.as_str(), None),
        };
        let parts: Vec<String> = address
            .split('/')
            .map(|part| {
                if looks_random(part) {
                    return format!("${{env:{}}}", self.give(&[self.server, "url_key"], part, "url"));
                }
                self.embedded(part, &[self.server, "url_key"], "url")
            })
            .collect();
        let address = parts.join("/");
        let Some(query) = query else { return address };
        let pairs: Vec<String> = query.split('&').map(|pair| self.pair(pair)).collect();
        format!("{address}?{}", pairs.join("&"))
    }

    fn pair(&mut self, pair: &str) -> String {
        let Some((name, value)) = pair.split_once('=') else {
            return self.embedded(pair, &[self.server, "url_key"], "url");
        };
        let secret = (is_secret_name(name) && could_be_secret(value)) || looks_random(value);
        if secret {
            return format!("{name}=${{env:{}}}", self.give(&[self.server, name], value, "url"));
        }
        self.embedded(pair, &[self.server, name], "url")
    }

    /// The text without the tokens and passwords that can be told by their looks.
    fn embedded(&mut self, text: &str, parts: &[&str], at: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..SECRETS_MAX {
            let Some(range) = embedded_secret(&text) else { return text };
            let variable = self.give(parts, &text[range.clone()], at);
            text.replace_range(range, &format!("${{env:{variable}}}"));
        }
        // So many are no accident; none of them is kept.
        if embedded_secret(&text).is_some() {
            return format!("${{env:{}}}", self.give(parts, &text, at));
        }
        text
    }

    /// The variable that stands for a secret from now on.
    fn give(&mut self, parts: &[&str], secret: &str, at: &str) -> String {
        let digest = sha256_hex(secret.as_bytes());
        let plain = variable_name(parts);
        let prefix = variable_name(&[self.server]);
        let of_server = if plain.starts_with(&prefix) { plain.clone() } else { format!("{prefix}_{plain}") };
        let numbered = (2..).map(|number: u32| format!("{of_server}_{number}"));
        let variable = [plain, of_server.clone()]
            .into_iter()
            .chain(numbered)
            .find(|name| self.secrets.given.get(name).is_none_or(|known| *known == digest))
            .unwrap_or(of_server.clone());
        self.secrets.given.insert(variable.clone(), digest);
        let at = one_line(at, 80);
        self.notes.push(format!(
            "set the environment variable `{variable}` to the secret that stands at `{at}` in the file; it was not copied"
        ));
        variable
    }
}

/// A text that is one variable and nothing else.
fn reference(text: &str) -> Option<Setting> {
    let name = text.strip_prefix("${env:")?.strip_suffix('}')?;
    (!name.contains(['$', '{', '}'])).then(|| Setting::from_env(name))
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "token", "apikey", "api-key"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Whether a text looks like a key that a machine made: a long run of letters and digits. Models'
/// names, dates, paths and versions have none.
fn looks_random(text: &str) -> bool {
    let made_by_machine = |run: &str| {
        let digits = run.bytes().filter(u8::is_ascii_digit).count();
        run.len() >= TOKEN_CHARS_MIN && digits >= 2 && run.len() - digits >= 2
    };
    let is_token_text = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.=+~".contains(&b));
    is_token_text && text.split(|c: char| !c.is_ascii_alphanumeric()).any(made_by_machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_words() {
        for text in
            ["a8f5f167f44f4964e6c998dee827110c", "tok-BSA0aBcDeFgHiJkLmNoPqRs1t", "pk.0123456789abcdef0123"]
        {
            assert!(looks_random(text), "{text}");
        }
        for text in [
            "claude-3-5-sonnet-20241022",
            "/usr/share/very/long/path/0123456789abcdef0123",
            "@modelcontextprotocol/server-everything@2025.1.1",
            "018f3a2b-7c1d-4e5f-8a9b-0c1d2e3f4a5b",
            "averylongwordwithoutanydigits",
            "two words 0123456789abcdef0123456789",
            "",
        ] {
            assert!(!looks_random(text), "{text}");
        }
    }
}
