//! The part of a page that one came to read, as Markdown.
//!
//! As in Mozilla's Readability, which the crates under a licence of our list do not offer: what
//! says that it is the content wins; else the element whose paragraphs hold most text with fewest
//! links; else the whole page without its frame.

use std::collections::HashMap;

use helve_net::Url;

use super::super::text::{block, web_address};
use super::dom::{Dom, Element, Id, Step};
use super::visible::is_hidden;

/// A marked part with less text than this is not the content.
const CONTENT_CHARS_MIN: usize = 200;
/// Longest HTML that is turned into Markdown.
const HTML_BYTES_MAX: usize = 1 << 20;
/// Deeper elements lose their tags and keep their text: the Markdown writer recurses.
const DEPTH_MAX: usize = 100;

/// Elements around the content.
const FRAME: [&str; 10] =
    ["nav", "aside", "footer", "form", "button", "select", "textarea", "input", "menu", "dialog"];
const FRAME_ROLES: [&str; 8] =
    ["navigation", "banner", "contentinfo", "search", "complementary", "dialog", "alertdialog", "menu"];
/// Words in a class or id that speak against an element, and for it.
const AGAINST: [&str; 18] = [
    "cookie",
    "consent",
    "sidebar",
    "newsletter",
    "share",
    "social",
    "promo",
    "advert",
    "sponsor",
    "breadcrumb",
    "popup",
    "modal",
    "related",
    "pagination",
    "comment",
    "footer",
    "masthead",
    "menu",
];
const FOR: [&str; 7] = ["article", "content", "entry", "post", "story", "body", "main"];
/// Elements that become Markdown; others leave their content alone.
const WRITTEN: [&str; 41] = [
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "a",
    "img",
    "strong",
    "b",
    "em",
    "i",
    "code",
    "pre",
    "blockquote",
    "table",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "th",
    "td",
    "br",
    "hr",
    "div",
    "section",
    "article",
    "dl",
    "dt",
    "dd",
    "figure",
    "figcaption",
    "del",
    "s",
    "caption",
    "main",
    "header",
];

/// The readable content as Markdown, and whether some of it is missing.
pub(super) fn markdown(dom: &Dom, base: &Url) -> (String, bool) {
    let root = content(dom);
    let framed = html(dom, root, base, &|element: &Element| !is_hidden(element) && !is_frame(element));
    // Where the frame was all there is, it was none.
    let bare = framed.0.len() < CONTENT_CHARS_MIN;
    let (html, cut) =
        if bare { html(dom, root, base, &|element: &Element| !is_hidden(element)) } else { framed };
    let text = htmd::convert(&html).unwrap_or_default();
    (block(&text), cut || dom.truncated)
}

/// The element that holds the content.
fn content(dom: &Dom) -> Id {
    let sizes = Sizes::of(dom);
    let marked = dom.elements(Dom::ROOT).filter(|(_, element)| {
        matches!(element.name(), "article" | "main") || element.attribute("role") == Some("main")
    });
    let marked = marked.map(|(id, _)| id).max_by_key(|id| sizes.text(*id));
    let all = sizes.text(Dom::ROOT);
    let enough = |id: &Id| sizes.text(*id) >= CONTENT_CHARS_MIN.min(all / 4);
    marked
        .filter(enough)
        .or_else(|| best(dom, &sizes).filter(|id| sizes.text(*id) >= all / 3))
        .or_else(|| dom.elements(Dom::ROOT).find(|(_, element)| element.name() == "body").map(|(id, _)| id))
        .unwrap_or(Dom::ROOT)
}

/// The element whose paragraphs score best.
fn best(dom: &Dom, sizes: &Sizes) -> Option<Id> {
    let mut scores: HashMap<Id, f64> = HashMap::new();
    for (id, element) in dom.elements(Dom::ROOT) {
        let own = sizes.text(id);
        if !matches!(element.name(), "p" | "pre" | "blockquote") || own < 25 {
            continue;
        }
        let score = 1.0 + (own as f64 / 100.0).min(3.0);
        let parent = dom.parent(id);
        let grandparent = parent.and_then(|id| dom.parent(id));
        for (id, share) in [(parent, 1.0), (grandparent, 0.5)] {
            if let Some(id) = id.filter(|id| dom.element(*id).is_some()) {
                *scores.entry(id).or_default() += score * share;
            }
        }
    }
    let weighed = scores.into_iter().map(|(id, score)| {
        let bias = dom.element(id).map_or(0.0, bias);
        (id, (score + bias) * (1.0 - sizes.link_share(id)))
    });
    // The first of equals, so that the same page always gives the same answer.
    weighed.max_by(|(a, x), (b, y)| x.total_cmp(y).then(b.cmp(a))).map(|(id, _)| id)
}

fn bias(element: &Element) -> f64 {
    let words = words_of(element);
    let has = |list: &[&str]| list.iter().any(|word| words.contains(word));
    if has(&AGAINST) {
        -10.0
    } else if has(&FOR) {
        5.0
    } else {
        0.0
    }
}

fn words_of(element: &Element) -> String {
    let of = |name: &str| element.attribute(name).unwrap_or_default().chars().take(200).collect::<String>();
    format!("{} {}", of("class"), of("id")).to_ascii_lowercase()
}

fn is_frame(element: &Element) -> bool {
    let name = element.name();
    FRAME.contains(&name)
        || element.attribute("role").is_some_and(|role| FRAME_ROLES.contains(&role))
        || (matches!(name, "div" | "section" | "ul" | "header") && {
            let words = words_of(element);
            let against = AGAINST.iter().any(|word| words.contains(word));
            against && !FOR.iter().any(|word| words.contains(word))
        })
}

/// How much text, and how much of it in links, each element holds.
struct Sizes(HashMap<Id, (usize, usize)>);

impl Sizes {
    fn of(dom: &Dom) -> Self {
        let mut sizes = HashMap::new();
        // For each open element: its id, its text, its linked text.
        let mut open: Vec<(Id, usize, usize)> = vec![(Dom::ROOT, 0, 0)];
        let mut links = 0_usize;
        for step in dom.walk(Dom::ROOT, |_, element| !is_hidden(element) && !is_frame(element)) {
            match step {
                Step::Open(id, element) => {
                    links += usize::from(element.name() == "a");
                    open.push((id, 0, 0));
                }
                Step::Text(text) => {
                    let count = text.chars().filter(|c| !c.is_whitespace()).count();
                    if let Some((_, own, linked)) = open.last_mut() {
                        *own += count;
                        *linked += if links > 0 { count } else { 0 };
                    }
                }
                Step::Close(element) => {
                    links -= usize::from(element.name() == "a");
                    if let Some((id, own, linked)) = open.pop() {
                        sizes.insert(id, (own, linked));
                        if let Some((_, outer, outer_linked)) = open.last_mut() {
                            *outer += own;
                            *outer_linked += linked;
                        }
                    }
                }
            }
        }
        if let Some((id, own, linked)) = open.pop() {
            sizes.insert(id, (own, linked));
        }
        Self(sizes)
    }

    fn text(&self, id: Id) -> usize {
        self.0.get(&id).map_or(0, |(text, _)| *text)
    }

    fn link_share(&self, id: Id) -> f64 {
        self.0.get(&id).map_or(0.0, |(text, linked)| *linked as f64 / (*text).max(1) as f64)
    }
}

/// Plain HTML of an element with absolute addresses, and whether it was cut.
fn html(dom: &Dom, root: Id, base: &Url, enter: &dyn Fn(&Element) -> bool) -> (String, bool) {
    let mut html = String::new();
    let mut depth = 0;
    // Whether each open element was written.
    let mut open: Vec<bool> = Vec::new();
    for step in dom.walk(root, move |_, element| enter(element)) {
        match step {
            Step::Open(_, element) => {
                let tag = (depth < DEPTH_MAX).then(|| tag(element, base)).flatten();
                depth += usize::from(tag.is_some());
                open.push(tag.is_some());
                html.push_str(tag.as_deref().unwrap_or(" "));
            }
            Step::Close(element) => {
                if open.pop() == Some(true) {
                    depth -= 1;
                    if !matches!(element.name(), "br" | "hr" | "img") {
                        html.push_str(&format!("</{}>", element.name()));
                    }
                }
            }
            Step::Text(text) => push_escaped(&mut html, text),
        }
        if html.len() > HTML_BYTES_MAX {
            return (html, true);
        }
    }
    (html, false)
}

/// The start tag, if the element becomes Markdown.
fn tag(element: &Element, base: &Url) -> Option<String> {
    let name = element.name();
    if !WRITTEN.contains(&name) {
        return None;
    }
    let address = |name: &str| element.attribute(name).and_then(|text| web_address(Some(base), text));
    let mut tag = format!("<{name}");
    let mut attribute = |name: &str, value: &str| {
        tag.push_str(&format!(" {name}=\""));
        push_escaped(&mut tag, value);
        tag.push('"');
    };
    match name {
        "a" => attribute("href", address("href")?.as_str()),
        "img" => {
            // A picture without words says nothing to a model.
            let words = element.attribute("alt").filter(|words| !words.trim().is_empty())?;
            attribute("src", address("src")?.as_str());
            attribute("alt", words);
        }
        "code" => {
            if let Some(class) = element.attribute("class") {
                attribute("class", class);
            }
        }
        _ => {}
    }
    tag.push('>');
    Some(tag)
}

pub(super) fn push_escaped(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            c => html.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> String {
        markdown(&Dom::parse(html), &Url::parse("https://a.example/dir/page").unwrap()).0
    }

    #[test]
    fn the_content_is_found_and_the_frame_left_out() {
        let page = "<header><nav><a href=/>Home</a></nav></header><div class='cookie-banner'>We use cookies</div>\
            <main><h1>On <em>trees</em></h1><p>Trees are <a href='../tall'>tall</a> &amp; old.</p>\
            <ul><li>oak</li><li>ash</li></ul><pre><code class='language-rust'>fn main() {}</code></pre>\
            <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>\
            <p><a href='javascript:x()'>click</a> <img src='t.png' alt='A tree'><img src='pixel.gif'></p></main>\
            <footer>Imprint</footer>";
        insta::assert_snapshot!(read(page), @r"
        # On *trees*

        Trees are [tall](https://a.example/tall) & old.

        *   oak
        *   ash

        ```rust
        fn main() {}
        ```

        | a | b |
        | - | - |
        | 1 | 2 |

        click ![A tree](https://a.example/dir/t.png)
        ");
    }

    #[test]
    fn without_marks_the_part_with_most_prose_wins() {
        let prose =
            "<p>A long and winding sentence about nothing in particular, which goes on for a while.</p>";
        let links = "<li><a href=/x>A link to another page of this site</a></li>".repeat(8);
        let page = format!("<div id=links><ul>{links}</ul></div><div id=text>{}</div>", prose.repeat(12));
        let text = read(&page);
        assert!(text.contains("winding sentence") && !text.contains("A link to"), "{text}");
    }

    #[test]
    fn a_page_that_is_all_frame_is_read_all_the_same() {
        assert_eq!(read("<nav><a href=/a>One</a></nav>"), "[One](https://a.example/a)");
        assert_eq!(read("<body>just words"), "just words");
        assert_eq!(read(""), "");
    }

    #[test]
    fn deep_and_huge_pages_are_cut() {
        let deep = format!("{}<p>deep</p>", "<div>".repeat(400));
        // A small stack: what recurses too far fails here.
        let text = std::thread::Builder::new().stack_size(1 << 20).spawn(move || read(&deep)).unwrap().join();
        assert_eq!(text.unwrap(), "deep");
        let huge = Dom::parse(&"<p>some words here</p>".repeat(60_000));
        let (text, cut) = markdown(&huge, &Url::parse("https://a.example/").unwrap());
        assert!(cut && text.len() <= HTML_BYTES_MAX, "{}", text.len());
    }
}
