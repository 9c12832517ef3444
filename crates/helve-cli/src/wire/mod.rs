//! Wiring: from configuration to a registry, a store and a runtime.

mod builtin;
mod cascades;
mod composed;
mod conditions;
pub(crate) mod hooks;
mod integrations;
pub(crate) mod mcp;
mod openapi;
pub(crate) mod policy;
pub(crate) mod records;
pub(crate) mod rules;
mod sandbox;
mod telemetry;
mod tools;
pub(crate) mod trust;
pub(crate) mod unboxed;
pub(crate) mod web;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use helve::approvals::ApprovalSettings;
use helve::json::JsonLimits;
use helve::ports::Ledger;
use helve::schema::Redactor;
use helve::schema::redact::SECRET_NAMES;
use helve::sessions::LabelSettings;
use helve::{BreakerSettings, Registry, RetryBudget, Runtime, Settings};
use helve_store::{SigningKey, Store, StoreOptions};

pub(crate) use builtin::builtin_as_shipped;
pub(crate) use cascades::circles;
pub(crate) use composed::{InOrder, in_order, parts};
pub(crate) use integrations::ByVariable;
pub(crate) use openapi::is_remote;
pub(crate) use sandbox::{limits, sandbox};
pub(crate) use tools::{Made, Maker, missing_programs, registry, tools};

use crate::config::origin::short;
use crate::config::{Config, Durability, Loaded};
use crate::failure::Failure;

/// How calls are run, from the configuration.
pub(crate) fn settings(config: &Config) -> Settings {
    let names = SECRET_NAMES.into_iter().chain(config.redact.names.iter().map(String::as_str));
    Settings {
        timeout_default: Duration::from_millis(config.execution.default_timeout_ms),
        timeout_max: Duration::from_millis(config.execution.max_timeout_ms),
        cancel_grace: Duration::from_millis(config.execution.cancel_grace_ms),
        precondition_timeout: Duration::from_millis(config.execution.precondition_timeout_ms),
        repair: config.repair.enabled,
        arguments: JsonLimits {
            bytes: config.limits.arguments_bytes,
            values: config.limits.arguments_values,
            depth: config.limits.arguments_depth,
        },
        result_bytes_max: config.limits.result_bytes,
        journal_result_bytes_max: config.journal.keep_results_bytes,
        run_result_bytes_max: config.journal.keep_run_results_bytes,
        require_authentication: config.security.require_authentication,
        ask_from: config.security.ask_from,
        labels: LabelSettings {
            when_met: config.labels.when_met,
            unlabelled: config.labels.unlabelled,
            principal_ttl: Duration::from_secs(config.labels.principal_ttl_s),
        },
        approvals: approvals(&config.approvals),
        durability: match config.journal.durability {
            Durability::Changes => helve::Durability::Changes,
            Durability::All => helve::Durability::All,
        },
        redactor: Redactor::new(names),
        limits: config.limits.calls.clone(),
        breaker: BreakerSettings {
            enabled: config.breaker.enabled,
            failures: config.breaker.failures,
            cool_down: Duration::from_millis(config.breaker.cool_down_ms),
            without: config.breaker.without.clone(),
        },
        retry_budget: RetryBudget {
            enabled: config.retry_budget.enabled,
            tokens: config.retry_budget.tokens,
            per_success: config.retry_budget.per_success,
        },
    }
}

fn approvals(section: &crate::config::ApprovalsSection) -> ApprovalSettings {
    ApprovalSettings {
        ttl: Duration::from_secs(section.ttl_s),
        wait: Duration::from_secs(section.wait_s),
        denied_for: Duration::from_secs(section.denied_for_s),
        rule_ttl: Duration::from_secs(section.session_rule_ttl_s),
        pending_max: section.pending_max,
        keep: Duration::from_secs(section.keep_s),
        own_domains: section.own_domains.clone(),
    }
}

/// How long the last traces have to leave before the process ends.
pub(crate) const TRACES_WAIT: Duration = Duration::from_secs(3);

/// Runs a future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(future);
    // A tool that cannot be stopped must not keep the process.
    runtime.shutdown_background();
    result
}

/// Runs a future to its end, or not: at the time limit it is left, even if it keeps every thread of
/// its own busy.
pub(crate) fn run_within<T: Send + 'static>(
    limit: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> anyhow::Result<Option<T>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        // Nobody hears it who has left.
        let _ = sender.send(future.await);
    });
    let heard = receiver.recv_timeout(limit).ok();
    runtime.shutdown_background();
    Ok(heard)
}

/// A runtime on these tools.
pub(crate) fn runtime(
    loaded: &Loaded,
    registry: Registry,
    ledger: Arc<dyn Ledger>,
    mut settings: Settings,
) -> Result<Runtime, Failure> {
    match SigningKey::open(&loaded.journal_path) {
        Ok(key) => settings.redactor = settings.redactor.with_key(key.mark_key()),
        // Without it secrets are hidden all the same, only all alike.
        Err(error) => tracing::warn!(%error, "secrets in the journal are not marked"),
    }
    let integrations = Arc::new(ByVariable::new(&loaded.config));
    let mut builder = Runtime::builder()
        .registry(registry.clone())
        .ledger(ledger)
        .integrations(integrations)
        .hooks(hooks::set(loaded)?)
        .permissions(rules::options(loaded)?)
        .policy(unboxed::gate(loaded, &registry))
        .settings(settings);
    if let Some(telemetry) = telemetry::telemetry(loaded)? {
        builder = builder.tracer(Arc::new(telemetry));
    }
    Ok(conditions::declare(builder, loaded, &registry)?.build())
}

/// Opens the journal, and makes it where there is none.
pub(crate) fn open_store(loaded: &Loaded) -> Result<Store, Failure> {
    let path = &loaded.journal_path;
    if loaded.journal_is_foreign() {
        refuse_brought(path)?;
    }
    let store = Store::open(path, StoreOptions::default()).map_err(|error| {
        Failure::failed("the journal cannot be used, and without a record no tool runs")
            .because(&error)
            .hint("name another file: `--set journal.path=FILE`, or in helve.toml")
    })?;
    if loaded.is_in_project() {
        keep_out_of_git(path);
    }
    Ok(store)
}

/// A journal that came with a folder is not used: approvals, keys and rules in it would count as if its
/// user had given them. Helve makes one that only its user can read, and a checkout does not.
#[cfg(unix)]
fn refuse_brought(journal: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let is_private = |found: &std::fs::Metadata| found.is_file() && found.permissions().mode() & 0o077 == 0;
    match std::fs::symlink_metadata(journal) {
        Ok(found) if !is_private(&found) => {
            let shown = short(journal);
            let refusal = format!("the journal {shown} did not come from Helve: others can read it");
            Err(Failure::denied(refusal)
                .detail("what came with a folder could hold approvals and keys that nobody here gave")
                .hint(format!("delete it and what lies beside it, and Helve makes a new one; if it is yours: `chmod 600 {shown}`")))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(not(unix))]
fn refuse_brought(_journal: &Path) -> Result<(), Failure> {
    Ok(())
}

/// What was said to tools should not be committed by accident. Failing at that is no reason not
/// to run one.
fn keep_out_of_git(journal: &Path) {
    let ignore = journal.with_file_name(".gitignore");
    if !ignore.exists()
        && let Err(error) = std::fs::write(&ignore, "*\n")
    {
        tracing::warn!(%error, "cannot write .gitignore beside the journal");
    }
}
