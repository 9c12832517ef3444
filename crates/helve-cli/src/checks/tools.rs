//! Probes of the tools: whether each is sound and has what it needs.

use helve::ports::Integrations;
use helve::sessions::Unlabelled;
use helve::{Caller, Filter, Layer, Registry};
use helve_host::Remark;
use helve_host::config::Loaded;
use helve_host::wire::{self, Connected, Tools};
use helve_mcp::config::ServerConfig;
use helve_mcp::counted::Standing;

use super::Check;
use crate::ui::count as noun;

pub(super) fn checks(loaded: &Loaded) -> Vec<Check> {
    let Tools { registry, remarks, broken } = match wire::tools(loaded) {
        Ok(tools) => tools,
        Err(failure) => return vec![Check::from_failure("tools", failure)],
    };
    let mut checks = vec![count(&registry)];
    checks.extend(broken.iter().map(|one| Check::set_aside("tools", &one.remark())));
    checks.extend(hooks(loaded));
    checks.extend(remarks.iter().map(|remark| Check::from_remark("tools", remark)));
    checks.extend(programs(loaded));
    checks.extend(servers(loaded));
    checks.extend(unsaid(loaded));
    checks.extend(trust(loaded));
    checks.extend(integrations(&registry, loaded));
    checks
}

fn count(registry: &Registry) -> Check {
    let tools = registry.list(&Filter::default());
    let layers = [Layer::BuiltIn, Layer::Org, Layer::Project].into_iter().filter_map(|layer| {
        let count = tools.iter().filter(|one| one.layer == layer).count();
        (count > 0).then(|| format!("{count} {layer}"))
    });
    let overriding: Vec<_> =
        tools.iter().filter(|one| !one.overrides.is_empty()).map(|one| one.name().as_str()).collect();
    let found = format!("{} ready ({})", tools.len(), layers.collect::<Vec<_>>().join(", "));
    if tools.is_empty() {
        return Check::warning("tools", "none", "`helve init` writes a helve.toml with examples");
    }
    if !overriding.is_empty() {
        let found =
            format!("{found}; {} from a later layer took the place of another", overriding.join(", "));
        return Check::warning("tools", found, "intended? `helve tools list` shows which");
    }
    Check::good("tools", found)
}

/// Hooks that cannot be used. What they would look at is denied.
fn hooks(loaded: &Loaded) -> impl Iterator<Item = Check> {
    let fix = "mend it; until then what it would look at is denied";
    wire::hooks::set(loaded)
        .broken
        .into_iter()
        .map(|found| Check::set_aside("hooks", &Remark { found, fix: fix.to_owned() }))
}

/// Program tools whose program is not there or may not be started.
fn programs(loaded: &Loaded) -> Vec<Check> {
    let missing = wire::missing_programs(&loaded.tools).into_iter();
    missing
        .map(|(tool, error)| {
            let fix = "install it, or change `command` of the tool";
            Check::warning("program", format!("`{tool}`: {error}"), fix)
        })
        .collect()
}

/// Servers whose tools have no facets from the operator: labels use assumptions about them.
fn unsaid(loaded: &Loaded) -> Option<Check> {
    let servers = wire::mcp::configured(loaded);
    let is_unsaid = |config: &ServerConfig| match Standing::of(config) {
        Standing::Said | Standing::Known(_) => false,
        Standing::PartlySaid | Standing::Assumed => config.enabled,
    };
    let named: Vec<_> =
        servers.iter().filter(|one| is_unsaid(&one.config)).map(|one| one.name.as_str()).collect();
    if named.is_empty() || loaded.config.labels.when_met == helve::sessions::WhenMet::Off {
        return None;
    }
    let what = match loaded.config.labels.unlabelled {
        Unlabelled::Assumed => "labels use assumptions about them",
        Unlabelled::All => "they count as all",
        Unlabelled::Ignored => {
            "LABELS IGNORE THEM: what they bring is not watched, and neither is what they send"
        }
    };
    let found = format!("nobody has said what tools of {} read and send; {what}", named.join(", "));
    let fix = "`helve mcp list` shows what is assumed; say it in [mcp.servers.NAME.tools.facets]";
    Some(Check::warning("labels", found, fix))
}

/// MCP servers. None is started for a look.
fn servers(loaded: &Loaded) -> Option<Check> {
    let servers = wire::mcp::configured(loaded);
    let waiting: Vec<_> =
        servers.iter().filter(|one| one.hold().is_some()).map(|one| one.name.as_str()).collect();
    let found = noun(servers.len(), "server");
    match (servers.is_empty(), waiting.is_empty()) {
        (true, _) => None,
        (false, true) => Some(Check::good("mcp", format!("{found}; `helve mcp status` connects them"))),
        (false, false) => Some(Check::good("mcp", format!("{found}; not trusted: {}", waiting.join(", ")))),
    }
}

/// What the project brings and nobody has seen yet.
fn trust(loaded: &Loaded) -> Option<Check> {
    let waiting = match wire::trust::waiting(loaded) {
        Ok(waiting) => waiting,
        Err(failure) => return Some(Check::from_failure("trust", failure)),
    };
    let named: Vec<_> = waiting
        .iter()
        .map(|one| match one.kind() {
            kind if kind == one.name => kind.to_owned(),
            kind => format!("{kind} {}", one.name),
        })
        .collect();
    (!named.is_empty()).then(|| {
        let found = format!("what this project brings waits to be trusted: {}", named.join(", "));
        Check::warning("trust", found, "`helve trust` shows what it would run or allow")
    })
}

/// Accounts that some tool needs and that are not connected.
fn integrations(registry: &Registry, loaded: &Loaded) -> Vec<Check> {
    let known = Connected::new(loaded);
    let mut tools = registry.list(&Filter::default());
    // What ships can be used or not: no call has asked for it yet.
    tools.retain(|one| one.layer != Layer::BuiltIn);
    let mut needed: Vec<_> = tools.iter().flat_map(|one| &one.tool.definition().integrations).collect();
    needed.sort();
    needed.dedup();
    let missing = needed.into_iter().filter(|name| !known.connected(name, &Caller::local()));
    missing
        .map(|name| {
            let users = tools.iter().filter(|one| one.tool.definition().integrations.contains(name)).count();
            let noun = if users == 1 { "tool needs" } else { "tools need" };
            Check::warning(
                "integration",
                format!("{users} {noun} `{name}`, not connected"),
                known.how_to_connect(name),
            )
        })
        .collect()
}
