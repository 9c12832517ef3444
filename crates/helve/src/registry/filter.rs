//! Which tools to list.

use helve_core::{Category, Layer, Risk, Source};

use super::Registered;

/// Which tools to list. What is absent does not filter.
///
/// ```
/// use helve::{Filter, Risk};
/// let harmless = Filter { risk: Some(Risk::Low), ..Filter::default() };
/// ```
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this category.
    pub category: Option<Category>,
    /// Only from this source.
    pub source: Option<Source>,
    /// Only of this risk.
    pub risk: Option<Risk>,
    /// Only in this namespace, or in one below it.
    pub namespace: Option<String>,
    /// Only tools that need this integration.
    pub integration: Option<String>,
    /// Only from this layer.
    pub layer: Option<Layer>,
}

impl Filter {
    pub(super) fn passes(&self, registered: &Registered) -> bool {
        let definition = registered.tool.definition();
        self.category.is_none_or(|category| category == definition.category)
            && self.source.is_none_or(|source| source == definition.source)
            && self.risk.is_none_or(|risk| risk == definition.risk)
            && self.layer.is_none_or(|layer| layer == registered.layer)
            && self
                .namespace
                .as_deref()
                .is_none_or(|wanted| in_namespace(registered.name().namespace(), wanted))
            && self
                .integration
                .as_deref()
                .is_none_or(|wanted| definition.integrations.iter().any(|i| i == wanted))
    }
}

fn in_namespace(actual: Option<&str>, wanted: &str) -> bool {
    let wanted = wanted.trim_end_matches('/');
    actual.is_some_and(|actual| {
        actual.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}
