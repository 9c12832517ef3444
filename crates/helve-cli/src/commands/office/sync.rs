//! `helve office sync`: fetches what is new, now.

use std::sync::{Arc, Mutex, PoisonError};

use helve_office::connect::{LOCAL, Synced, sync_account};
use helve_office::{Account, Office};
use serde_json::json;

use super::{account, open, unusable};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::progress::Line;
use crate::exit::Exit;
use crate::failure::Failure;

const AFTER_HELP: &str = "\
`helve up` and `helve mcp serve` do this every few minutes.

Examples:
  helve office sync
  helve office sync work --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only this account
    #[arg(value_name = "ID")]
    id: Option<String>,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let office = open(app)?;
    let chosen: Vec<_> = match &args.id {
        Some(id) => vec![account(&office, id)?],
        None => office.accounts().iter().filter(|account| account.id != LOCAL).cloned().collect(),
    };
    if chosen.is_empty() {
        return Err(Failure::usage("there is no account to sync")
            .hint("`helve connect mail`, `calendar`, `contacts` or `jmap` connects one")
            .into());
    }
    let ended = block_on(all(&office, &chosen, app))?;
    let failed = ended.iter().any(|(_, ended)| matches!(ended, Synced::Failed(_)));
    if app.ui.is_json() {
        let all: Vec<_> = ended
            .iter()
            .map(|(id, ended)| json!({ "id": id, "ended": word(ended), "trouble": why(ended) }))
            .collect();
        app.ui.json(&all)?;
    } else {
        for (id, ended) in &ended {
            let paint = app.ui.paint();
            app.ui.line(match ended {
                Synced::Done => format!("{} {id} is up to date", paint.good("✓")),
                Synced::Elsewhere => format!("{} {id}: another process syncs it right now", paint.warn("…")),
                Synced::Failed(trouble) => {
                    format!("{} {id}: {}", paint.bad("✗"), crate::ui::escape::one_line(trouble, 400))
                }
            })?;
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

async fn all(
    office: &Office,
    chosen: &[Arc<Account>],
    app: &mut App<'_>,
) -> anyhow::Result<Vec<(String, Synced)>> {
    let mut ended = Vec::new();
    for account in chosen {
        let line = Mutex::new(Line::new(app.ui));
        let show = |far: &str| {
            let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
            line.show(&format!("{}: {far}", account.id));
        };
        let synced = sync_account(office, account, &show).await;
        drop(line);
        ended.push((account.id.clone(), synced.map_err(|error| unusable(&error))?));
    }
    Ok(ended)
}

fn word(ended: &Synced) -> &'static str {
    match ended {
        Synced::Done => "done",
        Synced::Elsewhere => "elsewhere",
        Synced::Failed(_) => "failed",
    }
}

fn why(ended: &Synced) -> Option<&str> {
    match ended {
        Synced::Failed(trouble) => Some(trouble),
        Synced::Done | Synced::Elsewhere => None,
    }
}
