//! `helve rules allow|ask|deny|mode`: changes of rules, in the file that is said.

use clap::ValueEnum;
use helve::gate::Stance;
use helve::permission::{Destination, PermissionMode, PermissionRule, PermissionUpdate, RuleValue};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;
use crate::wire::rules::RuleFiles;

/// As typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rules, such as "file-write(notes/*)"
    #[arg(required = true, value_name = "RULE")]
    rules: Vec<PermissionRule>,
    /// Take them away instead
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    place: Place,
}

/// As typed.
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
    apply(&args.place, make, &format!("{done}: {}", said.join(", ")), app)
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
    let set = RuleFiles::of(&loaded)
        .change(&update)
        .map_err(|failure: Failure| failure.hint("say where: --in user, --in project or --in local"))?;
    if app.ui.is_json() {
        app.ui.json(&set)?;
        return Ok(Exit::Done);
    }
    let sign = app.ui.paint().good("✓");
    app.ui.line(format!("{sign} {} ({})", escape::one_line(said, 600), destination.as_str()))?;
    app.ui.note("a running `helve up` follows within a second; see all: helve rules list")?;
    Ok(Exit::Done)
}
