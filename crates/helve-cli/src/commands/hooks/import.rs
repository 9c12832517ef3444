//! `helve hooks import`: the hooks that people already have.

use std::fs;
use std::path::{Path, PathBuf};

use helve_host::config::document::read_text;
use helve_host::config::origin::short;
use helve_host::config::{Loaded, load};
use helve_host::wire::hooks;
use helve_host::wire::trust::{self, Store};
use helve_mcp::import::Homes;
use helve_mcp::trust::Verdict;
use helve_tools::hooks::import::{Imported, Permissions, import};
use serde_json::{Value, json};

use super::{shown, write};
use crate::app::App;
use crate::commands::file;
use crate::commands::mcp::ask::{Confirmation, ask};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

const AFTER_HELP: &str = "\
Reads `.claude/settings.json` and `.claude/settings.local.json` of the project and `~/.claude/settings.json` (in
CLAUDE_CONFIG_DIR, where that is set), or the file that you name. You see each hook before it is written into helve.toml; those of the project are
trusted as they are shown.

In Helve, a hook's command runs in a box: it reads the project, changes nothing and has no network. Helve grants what
the command line shows it needs: files that it writes, scripts in your home, and, for a hook that runs after a tool
(a formatter, say), changes to the project. You see these grants too. If a command needs more, grant it in helve.toml:
write = [\".\"], network = [\"api.example.com:443\"], read = [\"~/.config/tool\"].

`permissions` are not imported; Helve prints the `helve rules` commands that come closest.

Exit codes:
  0 done   2 wrong use   3 a person must say yes

Examples:
  helve hooks import
  helve hooks import team/settings.json --yes";

/// Largest settings file.
const SETTINGS_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A settings file of Claude Code
    file: Option<PathBuf>,
    /// Write all into your own helve.toml. Left out: those of the project into the project's
    #[arg(long)]
    user: bool,
    /// Write and trust them as they are shown, without a question
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let mut documents = Vec::new();
    let mut exit = Exit::Done;
    for (path, own) in files(args, &loaded, app) {
        let text = read_text(&path, SETTINGS_BYTES_MAX)?;
        let mut imported = import(text.as_bytes())
            .map_err(|error| Failure::usage(format!("{} cannot be used", short(&path))).detail(error))?;
        keep_what_is_there(&mut imported, &hooks::folder(&loaded));
        show(&path, &imported, app)?;
        let became =
            if imported.groups.is_empty() { "nothing" } else { take_over(&path, own, &imported, args, app)? };
        if became == "waiting" {
            exit = Exit::Waiting;
        }
        documents.push(document(&path, &imported, became));
    }
    if app.ui.is_json() {
        app.ui.json(&documents)?;
    } else if documents.is_empty() {
        app.ui.note("nothing was found to import; name a file, or write hooks into helve.toml")?;
    } else if exit == Exit::Waiting {
        app.ui.note("nothing was written: there is no terminal to ask on; --yes writes them as shown")?;
    }
    Ok(exit)
}

/// The files to read, and whether each is the person's own.
fn files(args: &Args, loaded: &Loaded, app: &App<'_>) -> Vec<(PathBuf, bool)> {
    if let Some(file) = &args.file {
        return vec![(app.inputs.work_dir.join(file), args.user)];
    }
    let project = loaded.project_file.as_deref().and_then(Path::parent).unwrap_or(&app.inputs.work_dir);
    let Homes { home, claude, .. } = Homes::of_user();
    let own = claude.unwrap_or_else(|| home.join(".claude")).join("settings.json");
    let found = [
        (project.join(".claude/settings.json"), args.user),
        (project.join(".claude/settings.local.json"), args.user),
        (own, true),
    ];
    found.into_iter().filter(|(path, _)| path.is_file()).collect()
}

fn show(path: &Path, imported: &Imported, app: &mut App<'_>) -> anyhow::Result<()> {
    if app.ui.is_json() {
        return Ok(());
    }
    let paint = app.ui.paint();
    app.ui.line(paint.bold(escape::one_line(&short(path), 200)))?;
    for (event, group) in &imported.groups {
        for hook in &group.hooks {
            for line in shown::lines(event, group, hook, paint) {
                app.ui.line(line)?;
            }
        }
    }
    for shell in imported.shells_missing() {
        let name = escape::one_line(&shell.to_string_lossy(), 80);
        app.ui.line(format!(
            "  {} `{name}`, which these hooks are written for, is not on this machine: until it is, they fail, \
             and a tool that one of them guards is not called",
            paint.warn("!")
        ))?;
    }
    for line in &imported.left_out {
        app.ui.line(format!("  {} left out: {}", paint.warn("!"), escape::one_line(line, 300)))?;
    }
    show_permissions(&imported.permissions, app)
}

/// Says that permissions are not taken over, and which commands come closest.
fn show_permissions(found: &Permissions, app: &mut App<'_>) -> anyhow::Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let sign = app.ui.paint().warn("!");
    app.ui.line(format!("  {sign} its `permissions` are not imported, and do not count here"))?;
    for (word, rules) in [("deny", &found.deny), ("ask", &found.ask)] {
        if !rules.is_empty() {
            let rules: Vec<_> = rules.iter().map(|rule| quoted(&escape::one_line(rule, 300))).collect();
            app.ui.line(format!("      what comes closest: helve rules {word} {}", rules.join(" ")))?;
        }
    }
    for rule in &found.unlike {
        app.ui.line(format!("      nothing comes close to `{}`", escape::one_line(rule, 300)))?;
    }
    if found.beyond > 0 {
        let beyond = found.beyond;
        app.ui.line(format!(
            "      {sign} {beyond} more that deny or ask were not looked at: they are too many"
        ))?;
    }
    for remark in found.remarks() {
        app.ui.line(format!("      {sign} {remark}"))?;
    }
    if found.allow > 0 {
        let allow = found.allow;
        app.ui.line(format!("      {allow} of them allow; those you want: helve rules allow RULE"))?;
    }
    Ok(())
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn take_over(
    path: &Path,
    own: bool,
    imported: &Imported,
    args: &Args,
    app: &mut App<'_>,
) -> anyhow::Result<&'static str> {
    match ask("Write these hooks into helve.toml, and trust them?", args.yes, app)? {
        Confirmation::Yes => {}
        Confirmation::No => return Ok("declined"),
        Confirmation::Nobody => return Ok("waiting"),
    }
    let loaded = load(&app.inputs)?;
    let here = |section: &&helve_host::config::HookSection, event: &str| section.event == event;
    let new = imported.groups.iter().filter(|(event, group)| {
        !loaded.hooks.iter().any(|section| here(&section, event.as_str()) && section.group == *group)
    });
    let new: Vec<_> = new.cloned().collect();
    if new.is_empty() {
        app.ui.note("  they are configured already")?;
        return Ok("present");
    }
    let folder = hooks::folder(&loaded);
    make_what_is_written(
        new.iter().flat_map(|(_, group)| &group.hooks).flat_map(|hook| &hook.reach.write),
        &folder,
    );
    let target = file::target(&loaded, own, &app.inputs.work_dir)?;
    let comment = format!("Imported from {}", escape::one_line(&short(path), 200));
    file::change(&target, |text| write::append(text, &new, &comment))?;
    // What else the project brought is not what was just shown and wanted.
    let was_trusted = hooks::verdict(&loaded) == Verdict::Trusted;
    let loaded = load(&app.inputs)?;
    if let Some(of_project) = hooks::of_project(&loaded).filter(|_| !own && was_trusted) {
        trust::open(Store::Hooks)?.accept_value(&trust::scope(&loaded), hooks::NAME, of_project)?;
    }
    if !app.ui.is_json() {
        let sign = app.ui.paint().good("✓");
        app.ui.line(format!("  {sign} they are in {}", short(&target)))?;
    }
    Ok("imported")
}

/// A box can only be given what is there.
fn keep_what_is_there(imported: &mut Imported, folder: &Path) {
    for hook in imported.groups.iter_mut().flat_map(|(_, group)| &mut group.hooks) {
        hook.reach.read.retain(|place| within(folder, place).exists());
    }
}

/// Makes the files that hooks write to, such as a log, for the same reason. Where that does not work,
/// the hook says so when it runs.
fn make_what_is_written<'p>(places: impl Iterator<Item = &'p PathBuf>, folder: &Path) {
    for place in places.map(|place| within(folder, place)).filter(|place| !place.exists()) {
        let made = place.parent().map(fs::create_dir_all).transpose();
        let made = made.and_then(|_| fs::OpenOptions::new().append(true).create(true).open(&place));
        if let Err(error) = made {
            tracing::warn!(%error, place = %place.display(), "a hook writes there, and it cannot be made");
        }
    }
}

/// A path as a hook names it: from the project's folder, or from the person's home.
fn within(folder: &Path, place: &Path) -> PathBuf {
    match (place.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_), None) | (Err(_), _) => folder.join(place),
    }
}

fn document(path: &Path, imported: &Imported, became: &str) -> Value {
    let groups: Vec<_> =
        imported.groups.iter().map(|(event, group)| json!({ "event": event, "group": group })).collect();
    json!({ "file": path, "became": became, "hooks": groups, "left_out": imported.left_out,
        "permissions": imported.permissions, "shells_missing": imported.shells_missing() })
}
