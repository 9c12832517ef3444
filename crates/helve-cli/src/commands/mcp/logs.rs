//! `helve mcp logs`: what a server wrote besides its messages.

use std::time::Duration;

use helve_host::wire::mcp;
use helve_mcp::log::Line;

use crate::app::App;
use crate::exit::Exit;
use crate::ui::escape;

/// How often a log is looked at that is followed.
const LOOK_EVERY: Duration = Duration::from_millis(300);

const AFTER_HELP: &str = "\
Shows standard error of the server, its log messages, what it wrote to standard output besides messages,
and remarks of Helve. Helve keeps up to `limits.stderr_bytes` of it, also after the server has ended.

Examples:
  helve mcp logs github
  helve mcp logs github -n 200 --json
  helve mcp logs github --follow";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The server whose output to show
    name: String,
    /// Show at most this many lines
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
    lines: usize,
    /// Go on until Ctrl-C
    #[arg(long, short)]
    follow: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let one = mcp::find_configured(&loaded, &args.name)?;
    let mut lines = mcp::kept_log(&one)?;
    let shown = lines.split_off(lines.len().saturating_sub(args.lines));
    let mut last = shown.last().or(lines.last()).cloned();
    if shown.is_empty() && !app.ui.is_json() {
        app.ui.note(format!("`{}` has written nothing yet", args.name))?;
    }
    print(&shown, app)?;
    if !args.follow {
        return Ok(Exit::Done);
    }
    loop {
        app.ui.flush()?;
        std::thread::sleep(LOOK_EVERY);
        let lines = mcp::kept_log(&one)?;
        // After a rotation the last line may be gone, and then all is new.
        let seen = lines.iter().rposition(|line| Some(line) == last.as_ref()).map_or(0, |at| at + 1);
        print(&lines[seen..], app)?;
        last = lines.last().cloned().or(last);
    }
}

fn print(lines: &[Line], app: &mut App<'_>) -> anyhow::Result<()> {
    let paint = app.ui.paint();
    for line in lines {
        if app.ui.is_json() {
            app.ui.json(line)?;
            continue;
        }
        let at = line.at.strftime("%Y-%m-%d %H:%M:%S");
        let from = line.source.as_str();
        app.ui.line(format!("{}  {from:<6}  {}", paint.dim(at), escape::one_line(&line.text, 4_000)))?;
    }
    Ok(())
}
