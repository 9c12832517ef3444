//! `helve rules allow|ask|deny|mode`: changes of rules, in the file that is said.

use clap::ValueEnum;
use helve::gate::Stance;
use helve::permission::{Destination, PermissionMode, PermissionRule, PermissionUpdate, RuleValue};
use helve_host::wire;
use helve_host::wire::rules::RuleFiles;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rules, such as "file-write(notes/*)"
    #[arg(required = true, value_name = "RULE")]
    rules: Vec<PermissionRule>,
    /// Remove these rules instead
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ModeArgs {
    /// default, acceptEdits, bypassPermissions, plan, dontAsk or auto
    #[arg(value_parser = mode_named)]
    mode: PermissionMode,
    #[command(flatten)]
    place: Place,
}

/// Where it is kept.
#[derive(Debug, clap::Args)]
struct Place {
    /// Whose rules: your own everywhere, the project's for all who share it, or yours in this
    /// project [default: local in a project, else user]
    #[arg(long = "in", value_name = "PLACE")]
    place: Option<Where>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Where {
    User,
    Project,
    Local,
}

impl Place {
    fn destination(&self, in_project: bool) -> Destination {
        match self.place {
            Some(Where::User) => Destination::UserSettings,
            Some(Where::Project) => Destination::ProjectSettings,
            Some(Where::Local) => Destination::LocalSettings,
            None if in_project => Destination::LocalSettings,
            None => Destination::UserSettings,
        }
    }
}

fn mode_named(text: &str) -> Result<PermissionMode, String> {
    serde_json::from_value(serde_json::Value::from(text))
        .map_err(|_| "it is one of default, acceptEdits, bypassPermissions, plan, dontAsk, auto".to_owned())
}

pub(crate) fn run(behavior: Stance, args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let rules: Vec<RuleValue> = args.rules.iter().map(RuleValue::from).collect();
    let make = |destination| match args.remove {
        true => PermissionUpdate::RemoveRules { rules: rules.clone(), behavior, destination },
        false => PermissionUpdate::AddRules { rules: rules.clone(), behavior, destination },
    };
    let done = if args.remove { "no longer there" } else { "there" };
    let said: Vec<_> = args.rules.iter().map(|rule| format!("{behavior} {rule}")).collect();
    let exit = apply(&args.place, make, &format!("{done}: {}", said.join(", ")), app)?;
    if !args.remove {
        note_mistyped(&args.rules, app)?;
    }
    Ok(exit)
}

pub(crate) fn mode(args: &ModeArgs, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let make = |destination| PermissionUpdate::SetMode { mode: args.mode, destination };
    apply(&args.place, make, &format!("the mode is {}", args.mode.as_str()), app)
}

fn apply(
    place: &Place,
    make: impl FnOnce(Destination) -> PermissionUpdate,
    said: &str,
    app: &mut App<'_>,
) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let destination = place.destination(loaded.project_file.is_some());
    let update = make(destination);
    let files = RuleFiles::of(&loaded);
    let before = files.rules(destination)?;
    let set = files.change(&update).map_err(Failure::from).map_err(|failure| match failure.exit {
        Exit::Usage => failure.hint("say where: --in user, --in project or --in local"),
        _ => failure,
    })?;
    if app.ui.is_json() {
        app.ui.json(&set)?;
        return Ok(Exit::Done);
    }
    if set == before {
        app.ui.line(format!("nothing changed: it was so before ({})", destination.as_str()))?;
        return Ok(Exit::Done);
    }
    let sign = app.ui.paint().good("✓");
    app.ui.line(format!("{sign} {} ({})", escape::one_line(said, 600), destination.as_str()))?;
    app.ui.note("a running `helve up` follows within a second; see all: helve rules list")?;
    Ok(Exit::Done)
}

/// Says what a rule was probably meant to be about, where no tool has its name. Tools of MCP servers are
/// not known before they are connected, and names such as `Write` are those of other agents.
fn note_mistyped(rules: &[PermissionRule], app: &mut App<'_>) -> anyhow::Result<()> {
    let loaded = helve_host::config::load(&app.inputs)?;
    let Ok(registry) = wire::registry(&loaded) else { return Ok(()) };
    let servers = wire::mcp::configured(&loaded);
    let names = rules.iter().map(PermissionRule::tool).filter(|name| {
        !name.contains(['*', '?'])
            && !name.starts_with(|first: char| first.is_ascii_uppercase())
            && registry.get(name).is_none()
            && !servers.iter().any(|one| one.may_have(name))
    });
    for name in names {
        if let Some(meant) = registry.near(name, 1).first() {
            app.ui.note(format!("note: no tool here is named `{name}`; did you mean `{meant}`?"))?;
        }
    }
    Ok(())
}
