//! `helve net check`: whether a URL may be fetched, and why; without connecting.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use helve_net::{Lookup, Report, Url, Verdict, system_lookup};

use crate::app::App;
use crate::blocking::block_on;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, escape};

const AFTER_HELP: &str = "\
Examples:
  helve net check https://example.com/
  helve net check http://localhost:8080/ --set net.allow=localhost:8080
  helve net check https://api.example/ --resolve api.example=10.0.0.7 --json

Exit codes: 0 it may be fetched, 4 it may not.";

/// Longest URL or reason that is shown in full.
const SHOWN_CHARS_MAX: usize = 600;

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The URL to check
    #[arg(allow_hyphen_values = true)]
    url: String,
    /// Take this address for a host instead of looking it up; again for more
    #[arg(long, value_name = "HOST=ADDR", value_parser = resolution)]
    resolve: Vec<(String, IpAddr)>,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let Args { url, resolve } = args;
    let policy = app.load_config()?.config.net;
    let lookup = lookup(resolve);
    let report = block_on(async { Ok(helve_net::check(&policy, &url, &lookup).await) })?;
    if app.ui.is_json() {
        app.ui.json(&report)?;
    } else {
        show(&report, app)?;
    }
    Ok(match report.verdict {
        Verdict::Allow => Exit::Done,
        Verdict::Deny => Exit::Denied,
    })
}

fn show(report: &Report, app: &mut App<'_>) -> anyhow::Result<()> {
    let paint = app.ui.paint();
    let word = |verdict| match verdict {
        Verdict::Allow => ("allowed", Tone::Good),
        Verdict::Deny => ("denied", Tone::Bad),
    };
    let (text, tone) = word(report.verdict);
    app.ui.line(format!(
        "{}  {}",
        tone.paint(paint, text),
        escape::one_line(&report.url, SHOWN_CHARS_MAX)
    ))?;
    app.ui.paragraph(&escape::one_line(&report.reason, SHOWN_CHARS_MAX))?;
    if !report.url.contains("://") {
        app.ui.note("give the whole address, as in https://example.com/")?;
    }
    if report.addresses.is_empty() {
        return Ok(());
    }
    app.ui.line("")?;
    let mut table = Table::new(["address", "range", "verdict"]);
    for found in &report.addresses {
        let (text, tone) = word(found.verdict);
        table.row([Cell::from(found.address.to_string()), Cell::from(found.range), Cell::new(text, tone)]);
    }
    app.ui.table(table)?;
    Ok(())
}

/// The addresses that were typed, and the system's for all other names.
fn lookup(typed: Vec<(String, IpAddr)>) -> Lookup {
    let mut by_name: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for (name, address) in typed {
        by_name.entry(name).or_default().push(address);
    }
    let system = system_lookup();
    Arc::new(move |name| match by_name.get(&name) {
        Some(found) => {
            let found = found.clone();
            Box::pin(async { Ok(found) })
        }
        None => system(name),
    })
}

/// `HOST=ADDR`, with the host as a URL would have it.
fn resolution(text: &str) -> Result<(String, IpAddr), String> {
    let (name, address) = text.split_once('=').ok_or("write HOST=ADDR, as in api.example=10.0.0.7")?;
    let address = address.trim_matches(['[', ']']).parse();
    let address =
        address.map_err(|_| "what follows `=` must be an IP address, as in api.example=10.0.0.7")?;
    let url =
        Url::parse(&format!("http://{name}/")).map_err(|error| format!("the host is refused: {error}"))?;
    let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_owned();
    Ok((host, address))
}
