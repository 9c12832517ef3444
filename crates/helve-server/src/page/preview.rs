//! What a tool says it would do: facts as a table, then its text, with the lines of a diff in colour.

use helve::preview::{PreviewLine, lines};

use super::html::Html;

/// A preview as HTML. Every line of it is there.
pub(super) fn preview(text: &str) -> Html {
    let all = lines(text);
    let is_fact = |line: &&PreviewLine<'_>| matches!(line, PreviewLine::Fact { .. });
    let (facts, body) = all.split_at(all.iter().take_while(is_fact).count());
    let mut html = Html::default();
    html.raw("<div class=\"preview\">");
    if !facts.is_empty() {
        put_facts(&mut html, facts);
    }
    if !body.is_empty() {
        put_body(&mut html, body);
    }
    html.raw("</div>");
    html
}

fn put_facts(html: &mut Html, facts: &[PreviewLine<'_>]) {
    html.raw("<dl>");
    for (at, line) in facts.iter().enumerate() {
        let PreviewLine::Fact { name, value } = line else { continue };
        match (name.is_empty(), at) {
            (true, _) => html.raw("<br>"),
            (false, 0) => html.raw("<div><dt>").shown(name).raw("</dt><dd>"),
            (false, _) => html.raw("</dd></div><div><dt>").shown(name).raw("</dt><dd>"),
        };
        html.shown(value);
    }
    html.raw("</dd></div></dl>");
}

fn put_body(html: &mut Html, body: &[PreviewLine<'_>]) {
    let is_diff = body.iter().any(PreviewLine::is_of_diff);
    html.raw(match is_diff {
        true => "<pre class=\"diff\" tabindex=\"0\" aria-label=\"Preview\">",
        false => "<pre tabindex=\"0\" aria-label=\"Preview\">",
    });
    for line in body {
        match line {
            PreviewLine::Added(line) => html.raw("<ins>").shown(line).raw("</ins>\n"),
            PreviewLine::Removed(line) => html.raw("<del>").shown(line).raw("</del>\n"),
            PreviewLine::Place(line) => html.raw("<span class=\"at\">").shown(line).raw("</span>\n"),
            PreviewLine::Fact { value: line, .. } | PreviewLine::Plain(line) if is_diff => {
                html.raw("<span>").shown(line).raw("</span>\n")
            }
            PreviewLine::Fact { value: line, .. } | PreviewLine::Plain(line) => html.shown(line).raw("\n"),
        };
    }
    html.raw("</pre>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_become_a_table_and_the_rest_a_text() {
        assert_eq!(
            preview("To: ada <a@b>\nFiles: a\n  b\n\nHi,\n- <b>").into_string(),
            "<div class=\"preview\"><dl><div><dt>To</dt><dd>ada &lt;a@b&gt;</dd></div>\
             <div><dt>Files</dt><dd>a<br>b</dd></div></dl>\
             <pre tabindex=\"0\" aria-label=\"Preview\">Hi,\n- &lt;b&gt;\n</pre></div>"
        );
        assert_eq!(preview("").into_string(), "<div class=\"preview\"></div>");
    }

    #[test]
    fn lines_of_a_diff_are_told_apart_and_nothing_becomes_markup() {
        assert_eq!(
            preview("@@ -1 +1 @@\n-</del><script>\n+\u{202e}new\n same").into_string(),
            "<div class=\"preview\"><pre class=\"diff\" tabindex=\"0\" aria-label=\"Preview\">\
             <span class=\"at\">@@ -1 +1 @@</span>\n<del>-&lt;/del&gt;&lt;script&gt;</del>\n\
             <ins>+<mark class=\"hid\" title=\"right-to-left override\">\\u{202e}</mark>new</ins>\n\
             <span> same</span>\n</pre></div>"
        );
    }
}
