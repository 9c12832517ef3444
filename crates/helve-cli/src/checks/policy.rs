//! Whether the policies can be used.

use helve_host::config::Loaded;
use helve_host::wire;
use helve_policy::Severity;

use super::Check;
use crate::ui::count;

pub(super) fn checks(loaded: &Loaded) -> Vec<Check> {
    let Ok(registry) = wire::registry(loaded) else { return Vec::new() };
    let policies = wire::policy::policies(loaded, &registry);
    if let Some(reason) = policies.is_broken() {
        let fix = "`helve policy check` lists everything with its place";
        // Served all the same: it says why nothing is allowed, and follows when that is mended.
        return vec![Check { lets_serve: true, ..Check::broken("policy", reason, fix) }];
    }
    let which = if loaded.policy_files.is_empty() { " (the policy that ships)" } else { "" };
    let found = format!("{}{which}", count(policies.statements().len(), "policy"));
    let warnings = policies.warnings().iter().filter(|finding| finding.severity == Severity::Warning);
    let warnings = warnings.map(|finding| {
        Check::warning("policy", finding.to_string(), "`helve policy check` lists everything with its place")
    });
    std::iter::once(Check::good("policy", found)).chain(warnings).collect()
}
