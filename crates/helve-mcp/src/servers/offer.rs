//! What a server offers.

use std::collections::BTreeMap;
use std::sync::Arc;

use helve::ToolName;
use serde_json::value::RawValue;

use crate::message::Fields;

/// What a server offers, as it said it.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// Its tools that can be used, by their name with us: the server's own definition, cleaned.
    pub tools: BTreeMap<ToolName, Arc<RawValue>>,
    /// The resources that it lists.
    pub resources: Vec<Arc<RawValue>>,
    /// Templates of resources.
    pub templates: Vec<Arc<RawValue>>,
    /// The prompts that it lists.
    pub prompts: Vec<Arc<RawValue>>,
    /// What is not as it should be.
    pub remarks: Vec<String>,
}

impl Offer {
    /// What it has besides tools, without remarks.
    pub(crate) fn without_tools(&self) -> Self {
        let Self { resources, templates, prompts, .. } = self.clone();
        Self { resources, templates, prompts, ..Self::default() }
    }

    /// The same with what another one has besides tools.
    pub(crate) fn with_resources_and_prompts(mut self, other: Self) -> Self {
        (self.resources, self.templates, self.prompts) = (other.resources, other.templates, other.prompts);
        self.remarks.extend(other.remarks);
        self
    }

    /// Whether it lists a resource at this address.
    pub(crate) fn has_resource(&self, uri: &str) -> bool {
        self.resources.iter().any(|resource| text(resource, "uri").as_deref() == Some(uri))
    }

    /// Whether one of its templates fits an address.
    pub(crate) fn has_template(&self, uri: &str) -> bool {
        let template = |raw: &Arc<RawValue>| text(raw, "uriTemplate");
        self.templates.iter().filter_map(template).any(|template| fits(&template, uri))
    }

    /// Whether it lists this template itself.
    pub(crate) fn lists_template(&self, template: &str) -> bool {
        self.templates.iter().any(|listed| text(listed, "uriTemplate").as_deref() == Some(template))
    }

    /// Whether it lists this prompt.
    pub(crate) fn has_prompt(&self, name: &str) -> bool {
        self.prompts.iter().any(|prompt| text(prompt, "name").as_deref() == Some(name))
    }
}

pub(super) fn text(raw: &RawValue, field: &str) -> Option<String> {
    Fields::read(Some(raw)).ok()?.text(field)
}

/// Whether an address fits a template: its fixed texts stand in this order, with something between.
fn fits(template: &str, uri: &str) -> bool {
    let mut parts = template.split('{');
    let Some(mut rest) = parts.next().and_then(|start| uri.strip_prefix(start)) else { return false };
    let mut ends_open = false;
    for part in parts {
        let Some((_expression, fixed)) = part.split_once('}') else { return false };
        ends_open = fixed.is_empty();
        match rest.find(fixed).filter(|_| !fixed.is_empty()) {
            Some(at) => rest = &rest[at + fixed.len()..],
            None if ends_open => {}
            None => return false,
        }
    }
    rest.is_empty() || ends_open
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn addresses_fit_their_templates() {
        assert!(fits("demo://resource/dynamic/text/{id}", "demo://resource/dynamic/text/7"));
        assert!(fits("test://template/{id}/data", "test://template/123/data"));
        assert!(fits("file:///{path*}", "file:///a/b"));
        assert!(!fits("test://template/{id}/data", "test://template/123/date"));
        assert!(!fits("test://template/{id}/data", "test://other/123/data"));
        assert!(!fits("test://fixed", "test://fixed/more"));
    }
}
