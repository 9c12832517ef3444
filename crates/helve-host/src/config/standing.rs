//! What each key counts for in a file that a project brings, which could come from anybody.
//!
//! INVARIANT: every key is decided here, by name. The tables take the types apart without `..`, so that a
//! new key does not compile before the code says what a stranger may do with it.

use std::collections::HashMap;
use std::sync::LazyLock;

use helve::Risk;
use helve::permission::PermissionSet;
use helve_mcp::config::McpConfig;
use helve_net::NetPolicy;
use helve_tools::WebConfig;
use helve_tools::code::CodeOptions;
use helve_tools::files::FilesConfig;
use helve_tools::web::config::{HttpConfig, ProviderConfig, ScrapeConfig, SearchConfig};
use serde_json::Value;

use super::RetentionSection;
use super::types::*;

/// What a key counts for in a project's file.
#[derive(Clone, Copy)]
pub(super) enum Standing {
    /// It counts: nothing that it can say does harm.
    Harmless,
    /// It never counts. Who hears of calls, who says who people are, and where they enter their secrets is
    /// for the user's own file alone.
    OwnOnly,
    /// It counts unless it is laxer than what counts without it (the second value); then it never does.
    /// These keep the gate, and a gate is changed in the file of the user it protects.
    Stricter(Takes),
    /// It counts unless it takes more than what counts without it; then it waits for trust.
    Waits(Takes),
    /// Paths. They count while all lead into the project's own folder, and the user's file names none;
    /// else they wait for trust.
    Inside,
    /// Paths that count besides the user's. They count while all lead into the project's own folder; else they
    /// wait for trust.
    InsideToo,
    /// Things by name. A new one counts; one in the place of the user's waits for trust.
    New,
    /// Another module decides, thing by thing: see `wire::trust`, `config::rules`, `config::policy`.
    Elsewhere,
}

/// Whether a value takes more than the one before.
type Takes = fn(value: &Value, before: &Value) -> bool;

/// What the key at a pointer counts for. What stands below a key counts for what the key does.
pub(super) fn standing(pointer: &str) -> Standing {
    let mut at = pointer;
    loop {
        if let Some(standing) = TABLE.get(at) {
            return *standing;
        }
        match at.rfind('/') {
            Some(cut) => at = &at[..cut],
            // No key at all; it is refused elsewhere.
            None => return Standing::OwnOnly,
        }
    }
}

/// One type's keys. The pattern fails to compile where one is missing.
macro_rules! keys {
    ($table:ident, $at:literal, $type:path { $($key:ident: $standing:expr),* $(,)? }) => {
        let _all: fn(&$type) = |$type { $($key: _),* }| ();
        $($table.insert(concat!($at, "/", stringify!($key)), $standing);)*
    };
}

static TABLE: LazyLock<HashMap<&'static str, Standing>> = LazyLock::new(|| {
    let mut table = HashMap::new();
    sections(&mut table);
    calls(&mut table);
    gate(&mut table);
    reach(&mut table);
    web(&mut table);
    office(&mut table);
    table
});

fn sections(table: &mut HashMap<&'static str, Standing>) {
    use Standing::{Elsewhere, New, OwnOnly, Waits};
    // Where a section is `Elsewhere`, its keys stand in their own table below.
    keys!(
        table,
        "",
        Config {
            execution: Elsewhere,
            registry: Elsewhere,
            limits: Elsewhere,
            breaker: Elsewhere,
            retry_budget: Elsewhere,
            repair: Elsewhere,
            journal: Elsewhere,
            // Approvals and keys in a database that a folder names would count as if its user had given them.
            store: OwnOnly,
            redact: Elsewhere,
            security: Elsewhere,
            identity: OwnOnly,
            rules: Elsewhere,
            labels: Elsewhere,
            policy: Elsewhere,
            approvals: Elsewhere,
            telemetry: OwnOnly,
            net: Elsewhere,
            sandbox: Elsewhere,
            code: Elsewhere,
            builtin: Elsewhere,
            files: Elsewhere,
            web: Elsewhere,
            office: Elsewhere,
            hooks: Elsewhere,
            mcp: Elsewhere,
            // Whether a variable is set, a file there: nobody gets to see what is in it.
            integrations: New,
            resources: New,
            // One calls a tool, with arguments of its own, before another runs.
            checks: Waits(anything),
            permissions: Waits(anything),
            tool: Elsewhere,
            openapi: Elsewhere,
        }
    );
    keys!(
        table,
        "/rules",
        PermissionSet {
            allow: Elsewhere,
            ask: Elsewhere,
            deny: Elsewhere,
            mode: Elsewhere,
            directories: Elsewhere,
        }
    );
    keys!(table, "/mcp", McpConfig { servers: Elsewhere });
    keys!(
        table,
        "/tool",
        ToolSections {
            http: Elsewhere,
            program: Elsewhere,
            sequence: Elsewhere,
            parallel: Elsewhere,
            conditional: Elsewhere,
            map: Elsewhere,
        }
    );
    keys!(table, "/policy", PolicySection { files: Standing::InsideToo });
}

/// How calls run. A bound on how much a call may hold can be lowered, and what raises one waits. Time is no
/// such bound: a caller can stop waiting.
fn calls(table: &mut HashMap<&'static str, Standing>) {
    use Standing::{Harmless, Stricter, Waits};
    keys!(
        table,
        "/execution",
        Execution {
            default_timeout_ms: Harmless,
            max_timeout_ms: Harmless,
            cancel_grace_ms: Harmless,
            precondition_timeout_ms: Harmless,
            stop_grace_ms: Harmless,
        }
    );
    keys!(table, "/registry", RegistrySection { tools_max: Harmless });
    keys!(
        table,
        "/limits",
        Limits {
            arguments_bytes: Waits(more),
            arguments_values: Waits(more),
            arguments_depth: Waits(more),
            result_bytes: Waits(more),
            calls: Stricter(lacks),
        }
    );
    // How often a tool that fails is tried again, and how arguments are mended.
    keys!(
        table,
        "/breaker",
        Breaker { enabled: Harmless, failures: Harmless, cool_down_ms: Harmless, without: Harmless }
    );
    keys!(table, "/retry_budget", RetryBudget { enabled: Harmless, tokens: Harmless, per_success: Harmless });
    keys!(table, "/repair", Repair { enabled: Harmless });
}

/// Who may do what, and what is kept of it.
fn gate(table: &mut HashMap<&'static str, Standing>) {
    use Standing::{Elsewhere, Harmless, Inside, OwnOnly, Stricter, Waits};
    keys!(
        table,
        "/journal",
        JournalSection {
            path: Inside,
            durability: Stricter(|value, before| ranks_below(value, before, &["changes", "all"])),
            keep_arguments_bytes: Waits(less),
            keep_results_bytes: Waits(less),
            keep_run_results_bytes: Waits(less),
            verify_every_s: OwnOnly,
            retention: Elsewhere,
        }
    );
    // A project's folder does not say how long its user keeps the record of what it did.
    keys!(
        table,
        "/journal/retention",
        RetentionSection {
            older_than_days: OwnOnly,
            size_bytes: OwnOnly,
            reads_older_than_days: OwnOnly,
            undo_days: OwnOnly,
            every_s: OwnOnly,
        }
    );
    keys!(table, "/redact", Redact { names: Stricter(lacks) });
    keys!(
        table,
        "/security",
        Security {
            require_authentication: Stricter(|value, before| before == true && value == false),
            ask_from: Stricter(|value, before| risk(value) > risk(before)),
        }
    );
    keys!(
        table,
        "/labels",
        LabelsSection {
            when_met: Stricter(|value, before| ranks_below(value, before, &["off", "ask", "deny"])),
            unlabelled: Stricter(|value, before| ranks_below(value, before, &["ignored", "assumed", "all"])),
            principal_ttl_s: Stricter(less),
        }
    );
    keys!(
        table,
        "/approvals",
        ApprovalsSection {
            ttl_s: Waits(more),
            wait_s: Harmless,
            denied_for_s: Waits(less),
            session_rule_ttl_s: Waits(more),
            pending_max: Waits(more),
            pending_share: Waits(more),
            keep_s: Waits(less),
            // Addresses below these are not pointed out to the person who decides.
            own_domains: Waits(adds),
            ask_url: OwnOnly,
            page_url: OwnOnly,
            webhook: OwnOnly,
        }
    );
}

/// What tools reach.
fn reach(table: &mut HashMap<&'static str, Standing>) {
    use Standing::{Harmless, Inside, Stricter, Waits};
    keys!(
        table,
        "/net",
        NetPolicy {
            allow: Waits(adds),
            deny: Stricter(lacks),
            only: Stricter(opens),
            response_bytes: Waits(more),
            timeout_ms: Harmless,
            connect_timeout_ms: Harmless,
            redirects: Waits(more),
        }
    );
    keys!(
        table,
        "/sandbox",
        SandboxSection {
            min_level: Stricter(|value, before| ranks_below(value, before, &LEVELS)),
            memory_mb: Waits(more),
            pids: Waits(more),
            cpu_s: Waits(more),
            work_mb: Waits(more),
        }
    );
    // An interpreter sees the code, and calls tools in its place.
    keys!(
        table,
        "/code",
        CodeOptions {
            python: Waits(anything),
            javascript: Waits(anything),
            shell: Waits(anything),
            read: Inside,
            network: Waits(adds),
            blocked_commands: Waits(lacks),
            call_tools: Waits(turns_on),
            warm: Waits(more),
            artifacts_max: Waits(more),
            artifact_bytes_max: Waits(more),
            sessions: Inside,
        }
    );
    keys!(table, "/builtin", Builtin { without: Waits(lacks) });
    keys!(
        table,
        "/files",
        FilesConfig {
            roots: Inside,
            read_bytes: Waits(more),
            write_bytes: Waits(more),
            backup_bytes: Harmless,
        }
    );
}

fn web(table: &mut HashMap<&'static str, Standing>) {
    use Standing::{Elsewhere, Harmless, Inside, Waits};
    keys!(
        table,
        "/web",
        WebConfig { search: Elsewhere, scrape: Elsewhere, http: Elsewhere, secrets: Waits(anything) }
    );
    // A provider has a key of the user's even where none is named.
    keys!(
        table,
        "/web/search",
        SearchConfig {
            providers: Waits(adds),
            timeout_ms: Harmless,
            searxng: Waits(anything),
            tavily: Waits(anything),
            brave: Waits(anything),
            serpapi: Waits(anything),
        }
    );
    let _both: fn(&ProviderConfig) = |ProviderConfig { url: _, key: _ }| ();
    keys!(
        table,
        "/web/scrape",
        ScrapeConfig {
            robots: Waits(|value, before| before == true && value == false),
            remember_ms: Harmless,
            browser: Waits(anything),
        }
    );
    keys!(table, "/web/http", HttpConfig { downloads: Inside, download_bytes: Waits(more) });
}

/// Whose mail it is, and where it lies, is for the user's own file alone.
fn office(table: &mut HashMap<&'static str, Standing>) {
    use Standing::{OwnOnly, Stricter, Waits};
    keys!(
        table,
        "/office",
        OfficeSection {
            enabled: Waits(turns_on),
            path: OwnOnly,
            // A meeting an hour off is harm enough.
            time_zone: Waits(anything),
            recipient_domains: Stricter(opens),
            sync_every_s: OwnOnly,
            address: OwnOnly,
            name: OwnOnly,
        }
    );
}

/// Levels of confinement, the weakest first.
const LEVELS: [&str; 5] = ["L0", "L1", "L2p", "L2", "L3"];

fn anything(_: &Value, _: &Value) -> bool {
    true
}

fn more(value: &Value, before: &Value) -> bool {
    value.as_u64() > before.as_u64()
}

fn less(value: &Value, before: &Value) -> bool {
    value.as_u64() < before.as_u64()
}

fn turns_on(value: &Value, before: &Value) -> bool {
    value == true && before != true
}

/// Whether a list that takes something away is without something that it took away before.
fn lacks(value: &Value, before: &Value) -> bool {
    adds(before, value)
}

/// Whether a list that lets things through has more than before.
fn adds(value: &Value, before: &Value) -> bool {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let known = items(before);
    items(value).iter().any(|one| !known.contains(one))
}

/// The same for a list that lets everything through where it is empty.
fn opens(value: &Value, before: &Value) -> bool {
    !is_empty(before) && (is_empty(value) || adds(value, before))
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

fn risk(value: &Value) -> Option<Risk> {
    serde_json::from_value(value.clone()).ok()
}

/// Whether a word stands before another, the laxest first. A word that is none is refused elsewhere.
fn ranks_below(value: &Value, before: &Value, words: &[&str]) -> bool {
    let rank = |value: &Value| words.iter().position(|word| value == word);
    rank(value) < rank(before)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_that_can_be_set_is_decided_by_name() {
        for section in crate::config::keys::sections() {
            for key in section.keys {
                let pointer = format!("/{}", key.key.replace("[]", "/0").replace('.', "/"));
                let (mut at, mut steps) = (pointer.as_str(), 0);
                while !TABLE.contains_key(at) {
                    at = &at[..at.rfind('/').unwrap_or_else(|| panic!("{pointer} is undecided"))];
                    steps += 1;
                }
                let is_section = matches!(TABLE[at], Standing::Elsewhere) && at.matches('/').count() == 1;
                let own = ["/openapi", "/hooks", "/tool", "/mcp"].iter().any(|own| at.starts_with(own));
                assert!(steps == 0 || !is_section || own, "{pointer} is decided by its section alone");
            }
        }
    }

    #[test]
    fn what_takes_more_is_told_from_what_takes_less() {
        let takes = |pointer: &str, value: Value, before: Value| match standing(pointer) {
            Standing::Stricter(takes) | Standing::Waits(takes) => takes(&value, &before),
            _ => panic!("{pointer}"),
        };
        assert!(takes("/net/allow", json!(["localhost"]), json!([])));
        assert!(!takes("/net/allow", json!([]), json!(["localhost"])));
        assert!(takes("/net/only", json!([]), json!(["a"])) && !takes("/net/only", json!(["a"]), json!([])));
        assert!(takes("/office/recipient_domains", json!(["a", "b"]), json!(["a"])));
        assert!(takes("/office/recipient_domains", json!([]), json!(["a"])));
        assert!(!takes("/office/recipient_domains", json!(["a"]), json!([])));
        assert!(takes("/sandbox/min_level", json!("L1"), json!("L2")));
        assert!(takes("/sandbox/memory_mb", json!(2), json!(1)));
        assert!(!takes("/sandbox/memory_mb", json!(1), json!(1)));
        assert!(takes("/builtin/without", json!([]), json!(["code-execute"])));
        assert!(takes("/web/secrets/x/env", json!("TOKEN"), Value::Null));
        assert!(takes("/permissions/*", json!(["x"]), Value::Null));
        assert!(takes("/code/call_tools", json!(true), json!(false)));
    }
}
