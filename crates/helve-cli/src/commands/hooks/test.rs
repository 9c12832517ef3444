//! `helve hooks test`: which hooks an event fires, and what they answer. No tool is called.

use helve::hooks::{Answered, Fired};
use serde_json::{Value, json};

use crate::app::App;
use crate::commands::hook;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, escape};

const AFTER_HELP: &str = "\
The hooks really run, with the fields that you give; the tool does not.

Exit codes:
  0 no hook objects   2 wrong use   4 a hook objects

Examples:
  helve hooks test PreToolUse --tool Bash --args '{\"command\": \"rm -rf /\"}'
  helve hooks test UserPromptSubmit --input '{\"prompt\": \"hello\"}'";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The event to fire, such as PreToolUse
    event: String,
    /// The tool's name, as hooks know it
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The tool's arguments, as hooks know them
    #[arg(long, value_name = "JSON", requires = "tool")]
    args: Option<String>,
    /// More fields of the event: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
}

pub(super) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let event = hook::read_event(&args.event, app)?;
    let mut input = hook::read_input(event, args.input.as_deref())?;
    if let Some(tool) = &args.tool {
        let arguments = match &args.args {
            Some(text) => hook::read_json(text.as_bytes())?,
            None => json!({}),
        };
        input = input.with("tool_name", tool.as_str()).with("tool_input", arguments);
        input.tool_use_id.get_or_insert_with(|| "test".to_owned());
    }
    hook::fire(input, hook::Behalf::Helve, app, tell)
}

fn tell(fired: &Fired, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let refusal = fired.refusal().map(str::to_owned);
    if app.ui.is_json() {
        let answers: Vec<_> = fired.answers.iter().map(answer).collect();
        app.ui.json(&json!({ "event": fired.event, "hooks": answers, "together": fired.to_output(),
            "refusal": refusal, "conflicts": fired.conflicts }))?;
    } else if fired.answers.is_empty() {
        app.ui.note("no hook runs for this; `helve hooks list` shows them all")?;
    } else {
        let mut table = Table::new(["hook", "says"]);
        for one in &fired.answers {
            let (said, tone) = match &one.result {
                Ok(output) => (serde_json::to_string(output)?, Tone::Plain),
                Err(failure) => (format!("failed: {failure}"), Tone::Bad),
            };
            table.row([
                Cell::new(escape::one_line(&one.by, 120), Tone::Strong),
                Cell::new(escape::one_line(&said, 1_000), tone),
            ]);
            if let Some(stderr) = stderr(one) {
                let wrote = format!("and wrote to stderr: {}", escape::one_line(stderr, 1_000));
                table.row([Cell::from(""), Cell::new(wrote, Tone::Warn)]);
            }
        }
        app.ui.table(table)?;
        let together = serde_json::to_string(&fired.to_output())?;
        app.ui.line(format!("together: {}", escape::one_line(&together, 4_000)))?;
    }
    Ok(if refusal.is_some() { Exit::Denied } else { Exit::Done })
}

fn answer(one: &Answered) -> Value {
    match &one.result {
        Ok(output) => json!({ "hook": one.by, "answer": output, "stderr": output.stderr }),
        Err(failure) => json!({ "hook": one.by, "failed": failure.to_string() }),
    }
}

/// What it wrote besides an answer. One that failed or said no has it in there.
fn stderr(one: &Answered) -> Option<&str> {
    one.result.as_ref().ok()?.stderr.as_deref()
}
