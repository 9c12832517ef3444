//! Wiring: from configuration to a registry, a store and a runtime.

pub mod background;
pub mod broken;
pub mod brought;
mod builtin;
mod cascades;
mod composed;
mod conditions;
pub mod database;
pub mod demands;
pub mod hooks;
mod integrations;
pub mod journal;
pub mod judges;
pub mod ledger;
pub mod mcp;
pub mod office;
mod openapi;
pub mod page;
pub mod policy;
pub mod records;
pub mod rules;
mod sandbox;
pub mod secret_files;
mod telemetry;
mod tools;
pub mod trail;
pub mod trust;
pub mod web;

use std::sync::Arc;
use std::time::Duration;

use helve::approvals::ApprovalSettings;
use helve::json::JsonLimits;
use helve::ports::Ledger;
use helve::schema::Redactor;
use helve::sessions::LabelSettings;
use helve::{BreakerSettings, Registry, RetryBudget, Runtime, Settings};
use helve_store::SigningKey;

pub use builtin::builtin_as_shipped;
pub use cascades::{is_of_server, wrongly_named};
pub use composed::{InOrder, in_order, parts};
pub use database::need_file;
pub use integrations::Connected;
pub use journal::{open_audit, open_store, refuse_brought};
pub use ledger::{LedgerError, OpenLedger, open_ledger, open_trail};
pub(crate) use openapi::is_remote;
pub use sandbox::{limits, sandbox};
pub use tools::{Made, Maker, Tools, known_here, missing_programs, registry, tools, tools_for};
pub use trail::Trail;

use crate::config::{Config, Durability, Loaded};
use crate::error::HostError;

/// How calls are run, from the configuration.
pub fn settings(config: &Config) -> Settings {
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
        journal_argument_bytes_max: config.journal.keep_arguments_bytes,
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
        redactor: Redactor::with_names(&config.redact.names),
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
        pending_share: section.pending_share,
        keep: Duration::from_secs(section.keep_s),
        own_domains: section.own_domains.clone(),
    }
}

/// How long the last traces have to leave before the process ends.
pub const TRACES_WAIT: Duration = Duration::from_secs(3);

/// A runtime on these tools.
pub fn runtime(
    loaded: &Loaded,
    registry: Registry,
    ledger: Arc<dyn Ledger>,
    mut settings: Settings,
) -> Result<Runtime, HostError> {
    match SigningKey::open(&loaded.journal_path) {
        Ok(key) => settings.redactor = settings.redactor.with_key(key.mark_key()),
        // Without it secrets are hidden all the same, only all alike.
        Err(error) => tracing::warn!(%error, "secrets in the journal are not marked"),
    }
    let integrations = Arc::new(Connected::new(loaded));
    let mut builder = Runtime::builder()
        .registry(registry.clone())
        .ledger(ledger)
        .integrations(integrations)
        .hooks(hooks::set(loaded).set)
        .permissions(rules::options(loaded)?)
        .policy(brought::gate(loaded, &registry))
        .settings(settings);
    if let Some(telemetry) = telemetry::telemetry(loaded)? {
        builder = builder.tracer(Arc::new(telemetry));
    }
    Ok(conditions::declare(builder, loaded, &registry).build())
}
