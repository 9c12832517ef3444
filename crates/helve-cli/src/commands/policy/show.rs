//! `helve policy show`: the policies in force.

use helve_host::wire;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::count;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this policy
    name: Option<String>,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let registry = wire::registry(&loaded)?;
    let policies = wire::policy::policies(&loaded, &registry);
    if let Some(reason) = policies.is_broken() {
        return Err(Failure::failed("no policy is in force, and everything is denied").detail(reason).into());
    }
    let mut statements = policies.statements();
    if let Some(name) = &args.name {
        let names: Vec<_> = statements.iter().map(|one| one.name.clone()).collect();
        statements.retain(|one| one.name == *name);
        if statements.is_empty() {
            let failure = Failure::usage(format!("there is no policy named `{name}`"));
            let near = helve_host::suggest::nearest(name, names.iter().map(String::as_str));
            let hint = near.map(|meant| format!("did you mean `{meant}`?"));
            return Err(failure
                .hint(hint.unwrap_or_else(|| "`helve policy show` shows them all".to_owned()))
                .into());
        }
    }
    if app.ui.is_json() {
        app.ui.json(&json!(statements))?;
        return Ok(Exit::Done);
    }
    for (index, statement) in statements.iter().enumerate() {
        if index > 0 {
            app.ui.line("")?;
        }
        let narrows = if statement.narrows { "  (only narrows)" } else { "" };
        app.ui.heading(&format!("{}  {}:{}{narrows}", statement.name, statement.file, statement.line))?;
        app.ui.paragraph(&statement.text)?;
    }
    app.ui.note(format!("\n{}", count(statements.len(), "policy")))?;
    Ok(Exit::Done)
}
