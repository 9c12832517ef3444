//! Files that are made from the types, and must not fall behind them.

use std::fmt::Write;

use crate::home::Home;

const INTRODUCTION: &str = "\
# Configuration

<!-- Made from the doc comments in crates/helve-host/src/config/types.rs. Do not edit:
     HELVE_UPDATE_DOCS=1 cargo test -p helve-cli docs -->

Helve works without a file. Where there is one, it is called `helve.toml`, and everything in it is
optional. `helve init` writes one with comments.

## Layers

Each layer wins over the ones above it in this table:

| layer | where |
|---|---|
| defaults | the tables below |
| user | `$XDG_CONFIG_HOME/helve/helve.toml`, or `~/.config/helve/helve.toml` |
| project | the nearest `helve.toml` from the current folder upward, not beyond the repository (a folder with `.git`); or the file of `--config` |
| environment | `HELVE_` and the key in capitals, two underscores between levels: `HELVE_EXECUTION__MAX_TIMEOUT_MS=60000` |
| flags | `--set execution.max_timeout_ms=60000` |

Single values and lists of values replace each other. Lists of tools add up: tools of the user's
file are in the layer `org`, tools of the project's file in the layer `project`, and one of the same
name in a later layer overrides the earlier one, which `helve tools list` shows.

An OpenAPI document that is fetched is kept for a day in `$XDG_CACHE_HOME/helve/openapi` (or
`~/.cache/helve/openapi`), and longer where it cannot be fetched again.

## When something is wrong

A tool, an API, an MCP server or a group of hooks that is wrong is set aside, and the rest of the file counts.
`helve tools list` shows what is wrong, with line and column; `helve doctor` and `helve tools lint` fail until it
is mended. A call of a broken tool ends with `precondition_failed` and the place of its definition. Nothing
answers in its place, also no tool of the same name in an earlier layer, and what is made of it is broken too.
A broken hook denies what it would look at, and broken policies deny every call. A mistake elsewhere (a key that
there is not, a rule that cannot be read, bad TOML) refuses the whole file.

A running `helve up` or `helve mcp serve` follows the files within a second or two:

| what changes | a running server |
|---|---|
| `[[tool.…]]`, `[[openapi]]`, `builtin`, `files`, `code`, `web` | exchanges its tools in one step; calls that run end with the tool they began with; MCP clients get `tools/list_changed` |
| `mcp.servers`, `rules`, `policy`, `hooks`, what you trust | follows |
| `net`, `sandbox`, `execution.default_timeout_ms` | follows for tools, hooks and new MCP servers; needs a restart for the rest |
| everything else, such as `limits`, the rest of `execution`, `journal.path` | needs a restart, and says for which keys |
| a `helve.toml` at a place where none counted at the start | takes it up if `helve init` or `helve mcp add` made it; otherwise asks for a restart, because a program in a box can write such a file |
| a mistake in the file, or in a tool or server that works | goes on with what it had, and says what is wrong and where; says once when it is mended |

What it says stands on its standard error; `helve doctor`, `helve tools list` and a second `helve up` repeat it.

## One journal

In a project calls are recorded in `.helve/helve.db`, elsewhere in `~/.local/state/helve/helve.db`. Where a
`helve up` already runs in a folder without a project and `helve init` or `helve mcp add` make one there, the
project goes on with the journal of that server, so that server and commands never use two. One that you write by
hand does so until that server ends. Your machine writes the first down below `~/.local/state/helve/projects`,
never in the project. A project that has a journal keeps it, and the server asks for a restart. `helve init` and
`helve doctor` say which journal is used.

## What a project may say

A project's file comes with a folder, and could come from anybody. A file that `--config` names, your
own file, variables and flags are your word, and nothing below holds for them. A project file that
belongs to another user is not used at all unless `--config` names it.

| of a project's file | counts |
|---|---|
| programs in a box that read and write in the project's own folder, without a network and without secrets; requests to public addresses without secrets; what is made of the one or the other | at once |
| what only makes the gate stricter; times; `breaker`, `retry_budget`, `repair`, `registry` | at once |
| tools that read, write or start something outside of the folder (links followed), reach a host from a box, name a secret (`${env:NAME}`), lead to this machine or a private network, take the place of a tool that you know, call tools that are not the project's (other than `math-eval`, `text-stats`, `json-query` and `time-now`), send what another of their parts reads here, change what is remembered in a journal of yours that the project goes on with, or want more memory or processes than programs get; programs without a box; OpenAPI documents that are fetched | once trusted; until then a call is denied, and nothing runs in its place |
| `net.allow`, `[web.secrets]`, `web.search`, `permissions`, `code.network`, interpreters and browsers; `files.roots`, `code.read`, `code.sessions`, `journal.path`, `web.http.downloads` that lead outside of the folder or replace yours; whatever raises a bound on size, or replaces a resource or integration of yours; `checks` | once trusted; until then it is as if it were not there, and a note says so |
| MCP servers, hooks, rules that allow | once trusted |
| what makes the gate laxer: `security`, `labels`, `sandbox.min_level`, `redact`, `net.deny`, `net.only`, `limits.calls`, `journal.durability` | never; write it into your own file |
| `[telemetry]`, `[identity]`, `approvals.webhook`, `ask_url`, `page_url` | never; write it into your own file |

`helve trust` shows all that waits, with links followed (`write  reports -> /home/you/.ssh`), and asks
once. Trust is looked at again at every call: where a link leads elsewhere by then, the call is denied,
and you are asked again. A running `helve up` follows what you trust and take back. Settings that it does
not follow (below) count after a restart, and where you take one back it denies every call until then.

A request of a project's tool that needs no trust reaches the public internet alone, whatever your own
`net.allow` opens, and labels take it for one that sends out and brings back what strangers wrote,
whatever its `facets` say.

`helve config show` says where each value came from. Unknown keys are refused. `helve config schema`
prints a JSON Schema for editors. Secrets never stand in the file: tools and integrations name the
environment variables that hold them.

## Keys
";

#[test]
fn the_page_on_configuration_is_up_to_date() {
    let keys = Home::new().json(&["config", "keys"]);
    let mut page = INTRODUCTION.to_owned();
    for section in keys.as_array().unwrap() {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().replace('|', "\\|");
        write!(page, "\n### `{}`\n\n{}\n\n", text(&section["header"]), text(&section["description"]))
            .unwrap();
        page.push_str("| key | type | default | what it does |\n|---|---|---|---|\n");
        for key in section["keys"].as_array().unwrap() {
            let default = match (&key["default"], key["required"].as_bool()) {
                (_, Some(true)) => "required".to_owned(),
                (serde_json::Value::Null, _) => String::new(),
                (value, _) => format!("`{value}`"),
            };
            let (name, kind) = (text(&key["key"]), text(&key["type"]));
            writeln!(page, "| `{name}` | {kind} | {default} | {} |", text(&key["description"])).unwrap();
        }
    }
    compare("configuration.md", &page);
}

const CLI_INTRODUCTION: &str = "\
# The command line

<!-- Made from `--help`. Do not edit:
     HELVE_UPDATE_DOCS=1 cargo test -p helve-cli docs -->

## What holds for every command

Answers go to standard output; remarks, errors and the log go to standard error. On a terminal there
are tables and colour; in a pipe columns are plain and aligned, and nothing is cut. `NO_COLOR` and
`--color` are respected. Characters that act on a terminal are always shown escaped.

`--json` gives one JSON document on one line (`audit export`: one a line). An error is then one line
of JSON on standard error: `{\"error\": {\"message\": …, \"details\": […], \"hints\": […]}}`. `call --json`
always prints the whole outcome, also of a call that failed.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the tool failed, or a check found something |
| 2 | wrong use: bad arguments, an unknown tool, a broken configuration |
| 3 | waiting for approval |
| 4 | denied |

Ctrl-C takes a running call back, and so do SIGTERM and the closing of the terminal (SIGHUP, unless
started with `nohup`): Helve asks the tool to stop, and the journal records it. A program gets SIGTERM
first, and SIGKILL after `execution.cancel_grace_ms`. A composed tool with `on_error = \"undo\"` undoes
what it did, and the command waits for that. A second Ctrl-C ends the command at once, as a crash would;
`helve runs resume` or `helve runs cancel` then deals with the run. A reader that leaves early, as in
`helve tools list | head -1`, is no error.
";

/// Every command that does something, with its help, in the order of the help.
fn commands(home: &Home, above: &[&str]) -> Vec<(String, String)> {
    let help = home.run(&[above, &["--help"]].concat()).stdout;
    if !help.contains(" <COMMAND>") {
        return vec![(above.join(" "), help)];
    }
    let listed = help.split("\nOptions:").next().unwrap().split("\nExamples:").next().unwrap();
    let names =
        listed.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  ")).map(|(name, _)| name);
    let names = names.filter(|name| !["", "help"].contains(name));
    let below = names.flat_map(|name| commands(home, &[above, &[name]].concat()));
    // One that has two usages does something by itself, too.
    let by_itself = help.contains("\n       helve ").then(|| (above.join(" "), help.clone()));
    by_itself.into_iter().chain(below).collect()
}

#[test]
fn the_page_on_the_command_line_is_up_to_date() {
    let home = Home::new();
    let mut page = CLI_INTRODUCTION.to_owned();
    write!(page, "\n## `helve`\n\n```text\n{}```\n", home.run(&["--help"]).stdout).unwrap();
    for (command, help) in commands(&home, &[]) {
        // The global flags stand above.
        let (own, rest) = help.split_once("\nGlobal options:\n").unwrap();
        let after = rest.split_once("\n\n").map_or(String::new(), |(_, after)| format!("\n{after}"));
        write!(page, "\n## `helve {command}`\n\n```text\n{own}{after}```\n").unwrap();
    }
    compare("cli.md", &page);
}

/// Compares a page with the one in `docs/`, or writes it where that is asked for.
fn compare(name: &str, page: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("HELVE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/{name} is stale: HELVE_UPDATE_DOCS=1 cargo test -p helve-cli docs");
}

/// A page that says what a test shows must not outlive the test.
#[test]
fn every_test_that_the_page_on_security_names_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    let named: Vec<_> = page.split('`').filter_map(|word| word.split_once("::")).collect();
    let named: Vec<_> = named.into_iter().filter(|(krate, _)| krate.starts_with("helve")).collect();
    assert!(named.len() > 60, "{}", named.len());
    for (krate, function) in named {
        let mut sources = String::new();
        let mut folders = vec![root.join("crates").join(krate)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    sources.push_str(&std::fs::read_to_string(path).unwrap());
                }
            }
        }
        assert!(sources.contains(&format!("fn {function}()")), "{krate}::{function}");
    }
}
