//! Which tools of a server are used, and how carefully.

use std::collections::{BTreeMap, BTreeSet};

use helve::pattern::matches;
use helve::{Facet, Risk};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which tools of a server are used, and how carefully. Patterns are of the server's own names for
/// its tools; `*` stands for any text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolRules {
    /// Patterns of tools that are used; all of them where there is none.
    pub allow: Vec<String>,
    /// Patterns of tools that are not used, whatever `allow` says.
    pub deny: Vec<String>,
    /// The least risk of tools, by pattern. What a server says of its tools can raise it and never
    /// lower it.
    pub risk: BTreeMap<String, Risk>,
    /// Which ways information takes through tools, by pattern: `"read_*" = ["reads_private"]`. All
    /// patterns that fit count. What a server says of a tool that is named here can add to it and never
    /// take away. A tool that no pattern names counts as Helve's table of well-known servers says, and else
    /// as `labels.unlabelled` says.
    pub facets: BTreeMap<String, Vec<Facet>>,
    /// Patterns of tools for which a person is always asked.
    pub requires_approval: Vec<String>,
}

impl ToolRules {
    /// Whether a tool is used.
    pub fn admits(&self, tool: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
        (self.allow.is_empty() || any(&self.allow)) && !any(&self.deny)
    }

    /// The least risk of a tool: the highest that a pattern gives it.
    pub fn risk_of(&self, tool: &str) -> Option<Risk> {
        self.risk.iter().filter(|(pattern, _)| matches(pattern, tool)).map(|(_, risk)| *risk).max()
    }

    /// Which ways information takes through a tool, as far as the operator has said.
    pub fn facets_of(&self, tool: &str) -> Option<BTreeSet<Facet>> {
        let mut named = self.facets.iter().filter(|(pattern, _)| matches(pattern, tool)).peekable();
        named.peek()?;
        Some(named.flat_map(|(_, facets)| facets.iter().copied()).collect())
    }

    /// Whether the operator has denied a tool by its name.
    pub fn denies(&self, tool: &str) -> bool {
        self.deny.iter().any(|pattern| matches(pattern, tool))
    }

    /// Whether a person is always asked.
    pub fn asks(&self, tool: &str) -> bool {
        self.requires_approval.iter().any(|pattern| matches(pattern, tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_is_stronger_and_the_highest_risk_counts() {
        let rules = ToolRules {
            allow: vec!["read_*".to_owned(), "write_*".to_owned()],
            deny: vec!["*_all".to_owned()],
            risk: BTreeMap::from([("*".to_owned(), Risk::High), ("read_*".to_owned(), Risk::Low)]),
            facets: BTreeMap::from([
                ("read_*".to_owned(), vec![Facet::ReadsPrivate]),
                ("*_one".to_owned(), vec![Facet::Egress]),
            ]),
            requires_approval: vec!["write_*".to_owned()],
        };
        assert!(rules.admits("read_one") && !rules.admits("read_all") && !rules.admits("list"));
        assert_eq!(rules.risk_of("read_one"), Some(Risk::High));
        assert!(rules.asks("write_x") && !rules.asks("read_x"));
        assert_eq!(rules.facets_of("read_one"), Some([Facet::ReadsPrivate, Facet::Egress].into()));
        assert_eq!(rules.facets_of("write_all"), None);
        assert!(ToolRules::default().admits("anything"));
        assert_eq!(ToolRules::default().risk_of("anything"), None);
    }
}
