//! What a person would see of a page. The rest is often meant for models alone.

use super::dom::{Dom, Element, Id, Step};
use crate::common::is_invisible;

/// The mark that the browser puts on elements that it does not show.
pub(in crate::web) const HIDDEN_MARK: &str = "data-helve-hidden";

/// Elements whose content is never read.
const UNREAD: [&str; 17] = [
    "script", "style", "template", "head", "title", "svg", "math", "iframe", "object", "embed", "canvas",
    "audio", "video", "map", "datalist", "frameset", "dialog",
];

/// Elements that stand on lines of their own.
const BLOCKS: [&str; 35] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "br",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tr",
    "ul",
    "summary",
];

/// Whether an element and all in it is hidden, as far as one can tell without its style sheets.
pub(super) fn is_hidden(element: &Element) -> bool {
    let said = |name: &str, value: &str| {
        element.attribute(name).is_some_and(|text| text.eq_ignore_ascii_case(value))
    };
    (UNREAD.contains(&element.name()) && !(element.name() == "dialog" && element.attribute("open").is_some()))
        || element.attribute("hidden").is_some()
        || element.attribute(HIDDEN_MARK).is_some()
        || said("aria-hidden", "true")
        || (element.name() == "input" && said("type", "hidden"))
        || element.attribute("style").is_some_and(hides)
}

/// Whether an element is in sight: neither it nor what it stands in is hidden.
pub(super) fn is_shown(dom: &Dom, id: Id) -> bool {
    let mut next = Some(id);
    while let Some(id) = next {
        if dom.element(id).is_some_and(is_hidden) {
            return false;
        }
        next = dom.parent(id);
    }
    true
}

/// Whether a `style` attribute takes its element out of sight.
fn hides(style: &str) -> bool {
    let style = style.to_ascii_lowercase();
    let mut absolute = false;
    let mut away = false;
    for (property, value) in style.split(';').filter_map(|one| one.split_once(':')) {
        let value = value.trim().trim_end_matches("!important").trim_end();
        let number =
            value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%').trim().parse::<f64>();
        let is_nothing = matches!(number, Ok(number) if number.abs() < 0.05);
        let is_far = matches!(number, Ok(number) if number < -499.0);
        match property.trim() {
            "display" if value == "none" => return true,
            "visibility" if matches!(value, "hidden" | "collapse") => return true,
            "content-visibility" if value == "hidden" => return true,
            "opacity" | "font-size" | "max-height" | "max-width" if is_nothing => return true,
            "width" | "height" if is_nothing => return true,
            "color" if value == "transparent" => return true,
            "text-indent" if is_far => return true,
            "clip" if value.starts_with("rect(0") || value.starts_with("rect(1px") => return true,
            "transform" if value.starts_with("scale(0)") => return true,
            "position" => absolute = matches!(value, "absolute" | "fixed"),
            "left" | "top" | "right" | "bottom" => away |= is_far,
            _ => {}
        }
    }
    absolute && away
}

pub(super) fn is_block(name: &str) -> bool {
    BLOCKS.contains(&name)
}

/// The text that one sees of an element, block by block, at most about `chars_max` characters.
pub(super) fn text(dom: &Dom, id: Id, chars_max: usize) -> String {
    let mut text = String::new();
    let mut gap = "";
    let mut chars = 0;
    for step in dom.walk(id, |_, element| !is_hidden(element)) {
        match step {
            Step::Open(_, element) | Step::Close(element) => {
                if is_block(element.name()) {
                    gap = "\n";
                } else if gap.is_empty() && matches!(element.name(), "td" | "th" | "option") {
                    gap = " ";
                }
            }
            Step::Text(piece) => {
                for c in piece.chars() {
                    if c.is_whitespace() || c.is_control() {
                        gap = if gap.is_empty() { " " } else { gap };
                        continue;
                    }
                    if is_invisible(c) {
                        continue;
                    }
                    if !text.is_empty() {
                        text.push_str(gap);
                    }
                    gap = "";
                    text.push(c);
                    chars += 1;
                    if chars >= chars_max {
                        text.push('…');
                        return text;
                    }
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(html: &str) -> String {
        text(&Dom::parse(html), Dom::ROOT, 1_000)
    }

    #[test]
    fn hidden_text_is_left_out() {
        let hidden = [
            "<p style='display:none'>X</p>",
            "<p style='color:red; DISPLAY : none !important'>X</p>",
            "<p style='visibility:hidden'>X</p>",
            "<p style='opacity:0'>X</p>",
            "<p style='opacity: 0.01'>X</p>",
            "<p style='font-size:0px'>X</p>",
            "<p style='font-size:0'>X</p>",
            "<div style='width:0;height:0;overflow:hidden'>X</div>",
            "<p style='position:absolute;left:-9999px'>X</p>",
            "<p style='text-indent:-9999px'>X</p>",
            "<p style='color:transparent'>X</p>",
            "<p hidden>X</p>",
            "<p aria-hidden=TRUE><b>X</b></p>",
            "<p data-helve-hidden>X</p>",
            "<!-- X -->",
            "<template>X</template>",
            "<script>X</script><style>X</style>",
            "<svg><text>X</text></svg>",
            "<iframe>X</iframe>",
            "<dialog>X</dialog>",
            "<p>\u{e0058}\u{200b}</p>",
        ];
        for html in hidden {
            assert_eq!(seen(&format!("<p>a</p>{html}<p>b</p>")), "a\nb", "{html}");
        }
        for html in
            ["<p style='opacity:1;left:-5px'>X</p>", "<dialog open>X</dialog>", "<noscript>X</noscript>"]
        {
            assert_eq!(seen(&format!("<p>a</p>{html}<p>b</p>")), "a\nX\nb", "{html}");
        }
    }

    #[test]
    fn text_is_cut_at_the_bound() {
        let dom = Dom::parse(&"é ".repeat(1_000));
        assert_eq!(text(&dom, Dom::ROOT, 3), "é é é…");
    }
}
