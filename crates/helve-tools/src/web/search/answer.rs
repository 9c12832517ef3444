//! Turns providers' answers into one shape, and trusts none of it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::super::config::ProviderName;
use super::super::scrape::plain_text;
use super::super::text::{line, web_address};
use super::provider::list;

const TITLE_CHARS_MAX: usize = 200;
const SNIPPET_CHARS_MAX: usize = 1_000;
const WORD_CHARS_MAX: usize = 60;

/// One result of a search.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct SearchResult {
    /// The page's title.
    title: String,
    /// The address of the page.
    url: String,
    /// A part of the page that fits the query.
    snippet: String,
    /// When it was published, as the provider writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<String>,
    /// The site, or the search engine that found it.
    source: String,
    /// How well it fits, as the provider sees it; only comparable within one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

/// Where a provider keeps what we look for.
struct Shape {
    results: &'static str,
    url: &'static str,
    snippet: &'static str,
    /// The first that is there.
    published: &'static [&'static str],
    source: Option<&'static str>,
    /// Titles and snippets are HTML.
    html: bool,
}

fn shape(provider: ProviderName) -> Shape {
    let shape = Shape {
        results: "/results",
        url: "url",
        snippet: "content",
        published: &["published_date", "publishedDate"],
        source: None,
        html: false,
    };
    match provider {
        ProviderName::Searxng => Shape { source: Some("engine"), ..shape },
        ProviderName::Tavily => shape,
        ProviderName::Brave => Shape {
            results: "/web/results",
            snippet: "description",
            published: &["page_age", "age"],
            html: true,
            ..shape
        },
        ProviderName::Serpapi => Shape {
            results: "/organic_results",
            url: "link",
            snippet: "snippet",
            published: &["date"],
            source: Some("source"),
            ..shape
        },
    }
}

/// The results of an answer, at most `max`. What has no usable address is left out.
pub(super) fn read(provider: ProviderName, answer: &Value, max: usize) -> Result<Vec<SearchResult>, String> {
    if !answer.is_object() {
        return Err("its answer is not a JSON object".to_owned());
    }
    let shape = shape(provider);
    let items = list(answer, shape.results)?;
    // An error in an answer with status 200, as SerpAPI sends also where it found nothing.
    if items.is_empty()
        && let Some(error) = answer.get("error").and_then(Value::as_str)
        && !error.contains("hasn't returned any results")
    {
        return Err(format!("it says: {}", line(error, 200)));
    }
    let mut seen = BTreeSet::new();
    Ok(items
        .iter()
        .filter_map(|item| result(&shape, item))
        .filter(|result| seen.insert(result.url.clone()))
        .take(max)
        .collect())
}

fn result(shape: &Shape, item: &Value) -> Option<SearchResult> {
    let text = |key: &str, chars_max: usize| {
        let text = item.get(key).and_then(Value::as_str).unwrap_or_default();
        if shape.html { line(&plain_text(text), chars_max) } else { line(text, chars_max) }
    };
    let url = web_address(None, item.get(shape.url)?.as_str()?)?;
    let published = shape.published.iter().map(|key| text(key, WORD_CHARS_MAX)).find(|date| !date.is_empty());
    let source = shape.source.map(|key| text(key, WORD_CHARS_MAX)).filter(|source| !source.is_empty());
    let title = Some(text("title", TITLE_CHARS_MAX)).filter(|title| !title.is_empty());
    Some(SearchResult {
        title: title.unwrap_or_else(|| line(url.as_str(), TITLE_CHARS_MAX)),
        snippet: text(shape.snippet, SNIPPET_CHARS_MAX),
        published,
        source: source.unwrap_or_else(|| url.host_str().unwrap_or_default().to_owned()),
        score: item.get("score").and_then(Value::as_f64).filter(|score| score.is_finite()),
        url: url.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn hostile_results_are_cleaned_or_left_out() {
        let answer = json!({ "results": [
            { "title": "a\u{200b}\u{1b}[31m\nb", "url": "https://a.example/", "content": "x\u{202e}y\u{0007}", "score": 0.5 },
            { "title": "again", "url": "https://a.example/", "content": "" },
            { "title": "script", "url": "javascript:alert(1)", "content": "" },
            { "title": "data", "url": "data:text/html,x", "content": "" },
            { "title": "credentials", "url": "https://bank.example@evil.example/", "content": "" },
            { "title": 7, "url": "https://b.example/p", "content": { "x": 1 }, "score": "high", "published_date": 3 },
            { "title": "no address" }, "text", null, 7, [],
            { "title": "t".repeat(10_000), "url": "https://c.example/", "content": "s".repeat(10_000) },
        ]});
        let results = read(ProviderName::Tavily, &answer, 20).unwrap();
        let brief: Vec<_> = results.iter().map(|r| (r.title.as_str(), r.url.as_str())).take(2).collect();
        assert_eq!(
            brief,
            [("a [31m b", "https://a.example/"), ("https://b.example/p", "https://b.example/p")]
        );
        assert_eq!(results[0].snippet, "xy");
        assert_eq!((results[1].snippet.as_str(), results[1].score, &results[1].published), ("", None, &None));
        assert_eq!(results[2].title.chars().count(), TITLE_CHARS_MAX + 1);
        assert_eq!(results.len(), 3);
    }

    #[test]
    fn wrong_shapes_are_errors_and_nothing_found_is_not() {
        for answer in [json!([]), json!("x"), json!({ "results": "x" }), json!({ "results": { "0": {} } })] {
            assert!(read(ProviderName::Searxng, &answer, 5).is_err(), "{answer}");
        }
        assert_eq!(read(ProviderName::Brave, &json!({ "type": "search" }), 5), Ok(vec![]));
        let empty = json!({ "error": "Google hasn't returned any results for this query." });
        assert_eq!(read(ProviderName::Serpapi, &empty, 5), Ok(vec![]));
        let error = json!({ "error": "Your account has run out of searches." });
        assert!(read(ProviderName::Serpapi, &error, 5).unwrap_err().contains("run out"));
    }

    #[test]
    fn html_in_braves_texts_becomes_text() {
        let answer = json!({ "web": { "results": [{
            "title": "Rust &amp; <strong>you</strong>", "url": "https://a.example/",
            "description": "It&#x27;s <b>1 &lt; 2</b><script>x()</script>", "page_age": "2026-01-02T03:04:05" }] } });
        let results = read(ProviderName::Brave, &answer, 5).unwrap();
        assert_eq!((results[0].title.as_str(), results[0].snippet.as_str()), ("Rust & you", "It's 1 < 2"));
        assert_eq!(results[0].published.as_deref(), Some("2026-01-02T03:04:05"));
    }

    proptest! {
        #[test]
        fn no_answer_brings_more_than_asked_or_a_bad_address(urls in proptest::collection::vec("\\PC{0,30}", 0..20)) {
            let items: Vec<_> = urls.iter().map(|url| json!({ "title": url, "url": url, "content": url })).collect();
            let results = read(ProviderName::Tavily, &json!({ "results": items }), 3).unwrap();
            prop_assert!(results.len() <= 3);
            for result in results {
                prop_assert!(result.url.starts_with("http://") || result.url.starts_with("https://"));
            }
        }
    }
}
