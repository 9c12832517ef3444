//! `helve audit verify`: proof that no record was changed or removed, or where it was.

use std::path::PathBuf;

use helve_host::wire::Trail;
use helve_store::{Anchored, Concern, Head, Problem, PrunedUpTo, Verification, VerifyingKey};
use serde_json::json;

use crate::app::App;
use crate::commands::when;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::{Ui, count, escape};

const AFTER_HELP: &str = "\
Each record carries a hash of itself and of the one before. Keep the head that this prints
on another machine, and pass it to --expect-head later: that shows a chain that was rewritten as a whole.

Examples:
  helve audit verify
  helve audit verify --expect-head 1042:9f86d081884c7d65…
  helve audit verify --checkpoint monday.txt --key helve-audit+1a2b3c4d+AY…";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A head that an earlier verify printed, which must still be part of the chain
    #[arg(long, value_name = "SEQ:HASH", value_parser = parse_head)]
    expect_head: Option<Head>,
    /// A checkpoint that `helve audit checkpoint` wrote, which must still be part of the chain
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "expect_head")]
    checkpoint: Option<PathBuf>,
    /// The key that checks it, as `helve audit key` printed it when you could trust it
    #[arg(long, value_name = "KEY", requires = "checkpoint")]
    key: Option<VerifyingKey>,
}

impl Args {
    /// What must still be part of the chain.
    fn expected(&self) -> Result<Option<Head>, Failure> {
        let (Some(file), Some(key)) = (&self.checkpoint, &self.key) else {
            return Ok(self.expect_head.clone());
        };
        let note = std::fs::read_to_string(file)
            .map_err(|error| Failure::usage(format!("cannot read {}", file.display())).because(&error))?;
        let checkpoint = key
            .check(&note)
            .map_err(|error| Failure::failed(format!("{} proves nothing", file.display())).because(&error))?;
        Ok(Some(checkpoint.head))
    }
}

fn parse_head(text: &str) -> Result<Head, String> {
    const WANTED: &str =
        "give what `helve audit verify` printed: a number, a colon and 64 hexadecimal digits";
    let (seq, hash) = text.split_once(':').ok_or(WANTED)?;
    let seq = seq.parse().ok().filter(|seq| *seq > 0).ok_or(WANTED)?;
    let hash = hash.to_ascii_lowercase();
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Ok(Head { seq, hash }) } else { Err(WANTED.to_owned()) }
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let expected = args.expected()?;
    let audit = super::open(app)?;
    if expected.is_some() && matches!(audit, Trail::Database(_)) {
        return Err(Failure::usage(
            "a database has a chain for each writer, and one expected head says nothing of the others",
        )
        .hint("keep what `helve audit verify --json` prints in `chains`, and compare it later")
        .into());
    }
    let mut found = audit.verify().map_err(|error| super::unreadable(&error))?;
    if let Some(expected) = expected.as_ref().filter(|_| found.is_sound()) {
        let now = audit.head_at(expected.seq).map_err(|error| super::unreadable(&error))?;
        found.first_problem = match &found.pruned {
            // What was pruned proves itself by its signature; the last of it can still be compared.
            Some(pruned) if expected.seq <= pruned.last => compare_pruned(expected, pruned),
            Some(_) | None => compare(expected, now.as_ref()),
        };
    }
    if app.ui.is_json() {
        let mut document = serde_json::to_value(&found)?;
        document["sound"] = json!(found.is_sound());
        app.ui.json(&document)?;
    } else {
        print(&found, app.ui)?;
    }
    Ok(if found.is_sound() { Exit::Done } else { Exit::Failed })
}

/// A sound chain that does not hold the expected head was cut or written anew.
fn compare(expected: &Head, now: Option<&Head>) -> Option<Problem> {
    let what = match now {
        Some(now) if now == expected => return None,
        Some(_) => "the entry is not the expected one: the chain was written anew",
        None => "the expected entry is missing: the chain was cut",
    };
    Some(Problem { seq: Some(expected.seq), what: what.to_owned() })
}

/// A head that was kept of entries that are pruned now.
fn compare_pruned(expected: &Head, pruned: &PrunedUpTo) -> Option<Problem> {
    if expected.seq == pruned.last && expected.hash == pruned.hash {
        return None;
    }
    let what = format!(
        "the expected entry cannot be compared: entries 1 to {} were pruned; keep the head that this prints without \
         --expect-head instead",
        pruned.last
    );
    Some(Problem { seq: Some(expected.seq), what })
}

/// What is wrong, in a few words: a lost anchor proves nothing about the journal itself.
fn verdict(concern: Option<Concern>) -> &'static str {
    match concern {
        Some(Concern::Anchor) => "the end of the journal cannot be vouched for",
        Some(Concern::Keys) => "the idempotency keys were changed",
        Some(Concern::Database) => "the database was changed",
        Some(Concern::Runs) => "the open runs were changed",
        Some(Concern::Approvals) => "approvals were changed",
        Some(Concern::ApiKeys) => "API keys were changed",
        Some(Concern::Sessions) => "sessions were changed",
        Some(Concern::Memory) => "what agents remember was changed",
        Some(Concern::Effects) => "what undo would restore was changed",
        Some(Concern::KeyFile) => "the journal's key was replaced",
        Some(Concern::Entries) | Some(_) | None => "the journal was changed",
    }
}

fn print(found: &Verification, ui: &mut Ui) -> anyhow::Result<()> {
    let paint = ui.paint();
    if let Some(problem) = &found.first_problem {
        let place = problem.seq.map(|seq| format!("entry {seq}: ")).unwrap_or_default();
        ui.line(format!("{} {}", paint.bad("✗"), verdict(found.concern)))?;
        ui.line(format!("  {place}{}", escape::visible(&problem.what)))?;
        ui.line(format!("  sound before that: {}", count(found.entries, "entry")))?;
        return Ok(());
    }
    ui.line(format!(
        "{} {} in {}: nothing was changed or removed",
        paint.good("✓"),
        count(found.calls, "call"),
        count(found.entries, "entry")
    ))?;
    if let Some(head) = &found.head {
        ui.line(format!("  head {}:{}", head.seq, head.hash))?;
    }
    if let Some(pruned) = &found.pruned {
        let (when, by) = (when::shown(pruned.at), escape::one_line(&pruned.by, 200));
        let last = pruned.last;
        ui.line(format!(
            "  entries 1 to {last} were pruned at {when} by {by}, under the signed checkpoint in entry {}",
            pruned.entry
        ))?;
    }
    print_chains(found, ui)?;
    match found.anchored {
        Anchored::Yes => {}
        // What the ends of a database's chains were is kept elsewhere, or nowhere.
        Anchored::No if !found.chains.is_empty() => {}
        Anchored::No => ui.line(format!(
            "  {} there is no anchor file, so a cut end would go unnoticed",
            paint.warn("!")
        ))?,
    }
    Ok(())
}

/// The end of each writer's chain, the last ones first.
fn print_chains(found: &Verification, ui: &mut Ui) -> anyhow::Result<()> {
    const SHOWN_MAX: usize = 10;
    for chain in found.chains.iter().rev().take(SHOWN_MAX) {
        if let Some(head) = &chain.head {
            ui.line(format!("  head {} {}:{}", escape::one_line(&chain.writer, 120), head.seq, head.hash))?;
        }
    }
    if found.chains.len() > SHOWN_MAX {
        ui.line(format!("  and {} more; --json has all", count(found.chains.len() - SHOWN_MAX, "chain")))?;
    }
    Ok(())
}
