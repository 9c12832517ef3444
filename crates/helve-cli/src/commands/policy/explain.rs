//! `helve policy explain`: what is decided, and by which policy.

use helve::{Action, LabelSet, Stance};
use helve_host::wire;
use helve_host::wire::mcp::Which;
use helve_policy::{Applied, Explanation};

use super::asked::{self, About, PolicyQuestion};
use crate::app::App;
use crate::commands::servers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, count};

const AFTER_HELP: &str = "\
Calls nothing, and looks at policies only. The risk of a tool, rules, hooks and labels can still make
a call ask or deny it.

Exit codes:
  0 allowed   2 wrong use   3 a person would be asked   4 denied

Examples:
  helve policy explain web-scrape --args '{\"url\": \"https://example.com\"}' --as agent:planner
  helve policy explain file-write --action list --role admin
  helve policy explain --action administer --as ada --role admin
  helve policy explain code-execute --args '{\"language\": \"python\", \"code\": \"1\"}' --label untrusted --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The tool; for resources and prompts SERVER/NAME
    what: Option<String>,
    /// The arguments of the call, as JSON
    #[arg(long = "args", value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// Who asks: `ada`, `agent:planner`, `service:cron` or `anonymous`
    #[arg(long = "as", value_name = "WHO", default_value = "local")]
    principal: String,
    /// A role that they have
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Something that their session has touched: untrusted, private or secret
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// What they want to do
    #[arg(long, value_name = "ACTION", default_value = "call")]
    action: String,
    /// Within this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The way the call comes in: rust, cli, stdio or http
    #[arg(long, default_value = "cli")]
    channel: String,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let registry = wire::registry(&loaded)?;
    let which = args.what.clone().unwrap_or_default();
    servers::with_tools(&loaded, &registry, Which::With(&which), app, |app| {
        let asked = read(&args, &registry)?;
        if let Some(why) = asked.misfit() {
            app.ui.note(format!("note: {why}; such a call is refused before policies are asked"))?;
        }
        let explanation = wire::policy::policies(&loaded, &registry).explain(&asked.request());
        print(&explanation, app)?;
        if let About::Tool(tool) = &asked.about
            && asked.action == Action::Call
            && explanation.vote.stance == Stance::Allow
            && tool.needs_approval(loaded.config.security.ask_from)
        {
            app.ui.note(format!(
                "a person is asked all the same: `{}` is of {} risk, and `security.ask_from` is {}",
                tool.name(),
                tool.definition().risk,
                loaded.config.security.ask_from
            ))?;
        }
        Ok(match explanation.vote.stance {
            Stance::Allow => Exit::Done,
            Stance::Ask => Exit::Waiting,
            Stance::Deny => Exit::Denied,
        })
    })
}

fn read(args: &Args, registry: &helve::Registry) -> Result<PolicyQuestion, Failure> {
    let action = asked::action(&args.action)?;
    let mut caller =
        asked::caller(&args.principal)?.roles(&args.roles).channel(asked::channel(&args.channel)?);
    caller.session.clone_from(&args.session);
    Ok(PolicyQuestion {
        caller,
        action,
        about: About::find(action, args.what.as_deref(), registry)?,
        arguments: serde_json::from_str(&args.arguments)
            .map_err(|error| Failure::usage("`--args` is not JSON").because(&error))?,
        labels: args.labels.iter().map(|label| asked::label(label)).collect::<Result<LabelSet, _>>()?,
        now: jiff::Timestamp::now(),
    })
}

fn print(explanation: &Explanation, app: &mut App<'_>) -> anyhow::Result<()> {
    if app.ui.is_json() {
        app.ui.json(explanation)?;
        return Ok(());
    }
    let vote = &explanation.vote;
    let (word, tone) = match vote.stance {
        Stance::Allow => ("allowed", Tone::Good),
        Stance::Ask => ("asks a person", Tone::Warn),
        Stance::Deny => ("denied", Tone::Bad),
    };
    let mut table = Table::bare();
    table.row([Cell::new(word, tone), Cell::from(format!("by {}", vote.by))]);
    if let Some(reason) = &vote.reason {
        table.row(["".into(), Cell::from(reason)]);
    }
    app.ui.table(table)?;
    for error in explanation.errors.iter().filter(|error| vote.reason.as_ref() != Some(error)) {
        app.ui.paragraph(error)?;
    }
    for applied in &explanation.applied {
        policy(applied, app)?;
    }
    let about = count(explanation.considered, "policy");
    app.ui.note(format!("\n{about} of {} are about such a request", explanation.policies))?;
    Ok(())
}

/// One policy that applies: what it did, where it stands, what it says.
fn policy(applied: &Applied, app: &mut App<'_>) -> anyhow::Result<()> {
    let statement = &applied.statement;
    let did = match (applied.decided, statement.effect) {
        (true, _) => "decides",
        (false, "permit") => "permits, in vain",
        (false, _) => "forbids too",
    };
    app.ui.line("")?;
    app.ui.heading(&format!("{}  {}:{}  {did}", statement.name, statement.file, statement.line))?;
    app.ui.paragraph(&statement.text)?;
    Ok(())
}
