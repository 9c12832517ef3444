//! What a page says about itself, and where it links to.

use std::collections::{BTreeMap, HashSet};

use helve_net::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::text::{line, web_address};
use super::dom::{Dom, Element};
use super::visible::{is_hidden, text};

const TITLE_CHARS_MAX: usize = 300;
const VALUE_CHARS_MAX: usize = 500;
const PROPERTIES_MAX: usize = 20;
pub(super) const LINKS_MAX: usize = 200;

/// What a page says about itself.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Metadata {
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    /// The address that it would rather be known by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) canonical: Option<String>,
    /// Its language, such as `en`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) language: Option<String>,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) author: Option<String>,
    /// When it was published, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) published: Option<String>,
    /// Its Open Graph properties, such as `title`, `type`, `image`, `site_name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) og: BTreeMap<String, String>,
}

/// A link of a page.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Link {
    /// The words that the page shows for it.
    text: String,
    /// Where it leads.
    url: String,
}

/// The address that relative ones start from.
pub(super) fn base_of(dom: &Dom, url: &Url) -> Url {
    let base = dom.elements(Dom::ROOT).find(|(_, element)| element.name() == "base");
    let href = base.and_then(|(_, element)| element.attribute("href"));
    href.and_then(|href| web_address(Some(url), href)).unwrap_or_else(|| url.clone())
}

/// The title and the rest of what the page says about itself.
pub(super) fn read(dom: &Dom, base: &Url) -> (Option<String>, Metadata) {
    let mut about = Metadata::default();
    let (mut title, mut heading) = (None, None);
    let set = |slot: &mut Option<String>, value: Option<&str>| {
        let value = value.map(|value| line(value, VALUE_CHARS_MAX)).filter(|value| !value.is_empty());
        if slot.is_none() {
            *slot = value;
        }
    };
    for (id, element) in dom.elements(Dom::ROOT) {
        match element.name() {
            "html" => set(&mut about.language, element.attribute("lang")),
            "title" if title.is_none() => {
                let words: String = dom
                    .walk(id, |_, _| true)
                    .filter_map(|step| match step {
                        super::dom::Step::Text(text) => Some(text),
                        _ => None,
                    })
                    .collect();
                title = Some(line(&words, TITLE_CHARS_MAX)).filter(|title| !title.is_empty());
            }
            "h1" if heading.is_none() => {
                heading =
                    Some(line(&text(dom, id, TITLE_CHARS_MAX), TITLE_CHARS_MAX)).filter(|h| !h.is_empty());
            }
            "link" if element.attribute("rel").is_some_and(|rel| rel.eq_ignore_ascii_case("canonical")) => {
                let url = element.attribute("href").and_then(|href| web_address(Some(base), href));
                set(&mut about.canonical, url.as_ref().map(Url::as_str));
            }
            "time" if about.published.is_none() && element.attribute("itemprop") == Some("datePublished") => {
                set(&mut about.published, element.attribute("datetime"));
            }
            "meta" => meta(element, &mut about, &set),
            _ => {}
        }
    }
    let title = title.or_else(|| about.og.get("title").cloned()).or(heading);
    about.description = about.description.or_else(|| about.og.get("description").cloned());
    (title, about)
}

fn meta(element: &Element, about: &mut Metadata, set: &dyn Fn(&mut Option<String>, Option<&str>)) {
    let content = element.attribute("content");
    let name = ["property", "name", "itemprop"].iter().find_map(|name| element.attribute(name));
    let name = name.unwrap_or_default().to_ascii_lowercase();
    match name.as_str() {
        "description" => set(&mut about.description, content),
        "author" | "article:author" => set(&mut about.author, content),
        "article:published_time" | "datepublished" | "date" | "dc.date" => set(&mut about.published, content),
        other => {
            let key = other.strip_prefix("og:").filter(|key| !key.is_empty() && key.len() <= 40);
            if let (Some(key), Some(content)) = (key, content)
                && about.og.len() < PROPERTIES_MAX
            {
                about.og.entry(line(key, 40)).or_insert_with(|| line(content, VALUE_CHARS_MAX));
            }
        }
    }
}

/// The links that one sees, each address once, and whether there are more.
pub(super) fn links(dom: &Dom, base: &Url) -> (Vec<Link>, bool) {
    let mut seen = HashSet::new();
    let mut links = Vec::new();
    for step in dom.walk(Dom::ROOT, |_, element| !is_hidden(element)) {
        let super::dom::Step::Open(id, element) = step else { continue };
        if element.name() != "a" {
            continue;
        }
        let Some(mut url) = element.attribute("href").and_then(|href| web_address(Some(base), href)) else {
            continue;
        };
        let within = element.attribute("href").is_some_and(|href| href.trim_start().starts_with('#'));
        url.set_fragment(None);
        if within || !seen.insert(url.to_string()) {
            continue;
        }
        if links.len() == LINKS_MAX {
            return (links, true);
        }
        links.push(Link { text: line(&text(dom, id, 120), 120), url: url.into() });
    }
    (links, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_what_it_is() {
        let dom = Dom::parse(
            "<html lang=de><head><title>A\n title</title><base href='/b/'><link rel=Canonical href=c>\
             <meta name=Description content='About\u{200b} it'><meta property='og:type' content=article>\
             <meta property='article:published_time' content='2026-01-02'><meta name=author content=Ada>\
             <link rel=canonical href='javascript:x'></head><h1>Heading</h1>",
        );
        let base = base_of(&dom, &Url::parse("https://a.example/x").unwrap());
        let (title, about) = read(&dom, &base);
        assert_eq!(title.as_deref(), Some("A title"));
        insta::assert_json_snapshot!(about, @r#"
        {
          "description": "About it",
          "canonical": "https://a.example/b/c",
          "language": "de",
          "author": "Ada",
          "published": "2026-01-02",
          "og": {
            "type": "article"
          }
        }
        "#);
    }

    #[test]
    fn links_are_absolute_distinct_visible_and_bounded() {
        let base = Url::parse("https://a.example/x").unwrap();
        let dom = Dom::parse(
            "<a href=y>Y</a><a href='/y#z'>again</a><a href='#top'>top</a><a href='javascript:1'>j</a>\
             <a href='mailto:a@b'>m</a><a href=z hidden>h</a><a>none</a><a href='//b.example'> B <i>b</i></a>",
        );
        let found = links(&dom, &base);
        let brief: Vec<_> = found.0.iter().map(|link| (link.text.as_str(), link.url.as_str())).collect();
        assert_eq!(brief, [("Y", "https://a.example/y"), ("B b", "https://b.example/")]);
        let many: String = (0..500).map(|n| format!("<a href={n}>n</a>")).collect();
        let (found, more) = links(&Dom::parse(&many), &base);
        assert!(found.len() == LINKS_MAX && more);
    }
}
