//! A server as a person must see it before it runs: exactly what is started, and what it may do.

use helve_mcp::config::{Credentials, Place, Reference, ServerConfig, Setting};
use helve_mcp::counted::{Standing, assumed_words};
use helve_mcp::launch::missing;
use helve_mcp::trust::shown;
use serde_json::Value;

use crate::ui::Table;
use crate::ui::escape;
use crate::ui::table::{Cell, Tone};

/// Where it is, on one line: the command as it would be typed, or the address.
pub(super) fn place(config: &ServerConfig) -> String {
    let value = shown(config).unwrap_or_default();
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    match config.place() {
        Some(Place::Command(_)) => {
            let args = value.get("args").and_then(Value::as_array).into_iter().flatten();
            let words = args.filter_map(Value::as_str).map(quoted);
            std::iter::once(quoted(&text("command"))).chain(words).collect::<Vec<_>>().join(" ")
        }
        Some(Place::Url(_)) => text("url"),
        None => "neither `command` nor `url`".to_owned(),
    }
}

pub(in crate::commands) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// All that matters about it.
pub(super) fn facts(name: &str, config: &ServerConfig) -> Table {
    let mut table = Table::bare().indented();
    let mut fact = |what: &str, value: String, tone: Tone| {
        if !value.is_empty() {
            table.row([Cell::new(what, Tone::Dim), Cell::new(value, tone)]);
        }
    };
    let paths = |paths: &[std::path::PathBuf]| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    match config.place() {
        Some(Place::Command(_)) => {
            fact("runs", place(config), Tone::Strong);
            fact(
                "in",
                config.cwd.as_ref().map(|cwd| cwd.display().to_string()).unwrap_or_default(),
                Tone::Plain,
            );
            fact("with", settings(&config.env), Tone::Plain);
            match config.confined {
                true => fact(
                    "box",
                    "confined: sees the system's programs and what follows".to_owned(),
                    Tone::Good,
                ),
                false => fact("box", "NOT confined: it can do all that you can".to_owned(), Tone::Bad),
            }
            fact("reads", paths(&config.read), Tone::Plain);
            fact("changes", paths(&config.write), Tone::Warn);
            fact("reaches", config.network.join(", "), Tone::Warn);
        }
        Some(Place::Url(_)) => {
            fact("reaches", place(config), Tone::Strong);
            fact("sends", settings(&config.headers), Tone::Plain);
        }
        None => fact("runs", place(config), Tone::Bad),
    }
    if config.credentials == Credentials::Caller {
        let named: Vec<_> = config.callers.keys().map(|name| escape::one_line(name, 60)).collect();
        let more = if named.is_empty() { String::new() } else { format!("; set for {}", named.join(", ")) };
        fact("accounts", format!("each caller's own{more}"), Tone::Plain);
    }
    let (counts, tone) = standing(name, config);
    fact("counts as", counts, tone);
    fact("roots", paths(&config.roots), Tone::Plain);
    if config.sampling {
        fact("model", "may ask for a model's answers".to_owned(), Tone::Warn);
    }
    table
}

/// Names and where the values come from; of a value that looks like a secret nothing.
fn settings(settings: &std::collections::BTreeMap<String, Setting>) -> String {
    let one = |(name, setting): (&String, &Setting)| match setting {
        Setting::Text(text) => format!("{name}={}", escape::one_line(text, 60)),
        Setting::Reference(Reference { source, prefix }) => format!("{name}={prefix}… from {source}"),
    };
    settings.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What its tools count as for labels, and who says so.
fn standing(name: &str, config: &ServerConfig) -> (String, Tone) {
    let assumed = || assumed_words(name, config);
    match Standing::of(config) {
        Standing::Said => ("what `tools.facets` says".to_owned(), Tone::Plain),
        Standing::Known(known) => (format!("what Helve knows of `{known}`"), Tone::Plain),
        Standing::PartlySaid => {
            let words = format!("what `tools.facets` says; of other tools is assumed: {}", assumed());
            (words, Tone::Warn)
        }
        Standing::Assumed => (format!("nobody has said; of its tools is assumed: {}", assumed()), Tone::Warn),
    }
}

/// What to say of a server of whose tools nobody has said what they count as.
pub(crate) fn unsaid(name: &str, config: &ServerConfig) -> Option<String> {
    let who = match Standing::of(config) {
        Standing::Said | Standing::Known(_) => return None,
        Standing::PartlySaid => "of some of its tools nobody has said what they read and send",
        Standing::Assumed => "nobody has said what its tools read and send",
    };
    let assumed = assumed_words(name, config);
    Some(format!("{name}: {who}, so this is assumed: {assumed}; say it in [mcp.servers.{name}.tools.facets]"))
}

/// The command that gives a server what its last words say that it lacked.
pub(super) fn lacked(name: &str, config: &ServerConfig, words: &[String]) -> Option<String> {
    let grants = missing(config, words);
    if grants.is_empty() {
        return None;
    }
    let flags: Vec<_> = grants.iter().map(ToString::to_string).collect();
    let command = format!("helve mcp grant {} {}", quoted(name), flags.join(" "));
    Some(format!("its box did not let it; to let it: {}", escape::one_line(&command, 600)))
}
