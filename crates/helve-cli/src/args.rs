//! The command line as it was typed. Each command resolves its part before it acts.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};

use crate::commands::{
    approvals, audit, call, completions, config, connect, doctor, hook, hooks, init, keys, mcp, memory, net,
    office, policy, rules, runs, sandbox, session, store, tools, trust, up,
};
use crate::help;
use crate::ui::Colour;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().bold());

/// The handle between a model and its tools.
#[derive(Debug, Parser)]
#[command(
    name = "helve",
    version,
    styles = STYLES,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    override_usage = "helve <COMMAND> [OPTIONS]",
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Answer with JSON: one document, or one a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print nothing but the answer
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more; the log goes to standard error (also HELVE_LOG=helve=trace)
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// When to use colour; NO_COLOR is respected
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub(crate) color: Colour,
    /// Read this file instead of the project's helve.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set one configuration key, as in execution.max_timeout_ms=60000
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
}

/// Every command, in the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check this machine, and serve MCP, the HTTP API and the approvals page
    Up(up::Args),
    /// Write a helve.toml with comments in this folder
    Init(init::Args),
    /// List, show, search, export and check tools
    #[command(subcommand)]
    Tools(tools::Command),
    /// Call a tool
    Call(call::Args),
    /// Use the tools of MCP servers, and serve tools to MCP clients
    #[command(subcommand)]
    Mcp(mcp::Command),
    /// Review what a project brings that could do harm, and trust it
    Trust(trust::Args),
    /// See, trust, import and test hooks
    #[command(subcommand)]
    Hooks(hooks::Command),
    /// Report to hooks what happens to an agent
    #[command(subcommand)]
    Hook(hook::Command),
    /// See and change what agents remember
    #[command(subcommand)]
    Memory(memory::Command),
    /// Connect an account: mail, calendars, contacts
    #[command(subcommand)]
    Connect(Box<connect::Command>),
    /// See and sync connected accounts, import files, and try the demo
    #[command(subcommand)]
    Office(office::Command),
    /// Run any program in a box
    #[command(subcommand)]
    Sandbox(sandbox::Command),
    /// See and change the rules that allow calls, ask about them or deny them
    #[command(subcommand)]
    Rules(rules::Command),
    /// See what sessions have touched and what that forbids, and end them
    #[command(subcommand)]
    Session(session::Command),
    /// See the calls that wait for a person, and approve or deny them
    #[command(subcommand)]
    Approvals(approvals::Command),
    /// Let others in over HTTP: make, list and revoke their keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// See, resume, undo and stop runs: calls that change things or have parts
    #[command(subcommand)]
    Runs(runs::Command),
    /// Check, test and explain who may do what
    #[command(subcommand)]
    Policy(policy::Command),
    /// Read and verify the record of every call
    #[command(subcommand)]
    Audit(audit::Command),
    /// Back up, restore, prune and measure the record of calls
    #[command(subcommand)]
    Store(store::Command),
    /// See what outgoing requests may reach
    #[command(subcommand)]
    Net(net::Command),
    /// Find out what is wrong with this machine or the configuration
    Doctor(doctor::Args),
    /// Show configuration, and where each value came from
    #[command(subcommand)]
    Config(config::Command),
    /// Print a completion script for your shell
    Completions(completions::Args),
}

/// What `--help` shows before the flags: commands under headings, made from the commands' own
/// one-line descriptions.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["up", "init"]),
    ("Use tools", &["tools", "call", "mcp", "connect", "office", "memory", "sandbox"]),
    (
        "Decide and look back",
        &["trust", "policy", "rules", "hooks", "hook", "approvals", "session", "runs", "audit"],
    ),
    ("Set up", &["config", "keys", "net", "store", "doctor", "completions"]),
];

const EXAMPLES: &str = "\
helve up                                     first run: see what is there
helve call math-eval expression='2^10 / 3'   call a tool with key=value pairs
helve call text-stats '{\"text\": \"Hello\"}'    … or with JSON, @file, or -
helve tools export --format anthropic        what a model is given
helve audit verify                           prove that no record was changed";

/// The command line with its grouped help.
pub(crate) fn command() -> clap::Command {
    let command = help::set(<Cli as clap::CommandFactory>::command());
    let (header, literal, plain) = (STYLES.get_header(), STYLES.get_literal(), anstyle::Reset);
    let mut template = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        template.push_str(&format!("\n{header}{heading}:{plain}\n"));
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            template.push_str(&format!("  {literal}{name:<13}{plain}{about}\n"));
        }
    }
    template.push_str(&format!("\n{header}Examples:{plain}\n"));
    for line in EXAMPLES.lines() {
        let (typed, remark) = line.split_at_checked(45).unwrap_or((line, ""));
        template.push_str(&format!("  {literal}{typed}{plain}{remark}\n"));
    }
    template.push_str("\n{all-args}");
    // The groups above list them; clap would list them again.
    command.help_template(template).mut_subcommands(|subcommand| subcommand.hide(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_one_group() {
        let command = <Cli as clap::CommandFactory>::command();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut all: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
