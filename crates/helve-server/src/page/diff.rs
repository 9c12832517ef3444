//! What an edit changes, line by line.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::html::Html;

/// How long looking for the shortest difference may take; then a longer one will do.
const SEARCH_MAX: Duration = Duration::from_millis(100);

/// The difference between two texts. Nothing is left out: what stays is shown too.
pub(super) fn diff(old: &str, new: &str) -> Html {
    let found = TextDiff::configure().timeout(SEARCH_MAX).diff_lines(old, new);
    let mut html = Html::default();
    html.raw("<pre class=\"diff\" tabindex=\"0\" aria-label=\"Difference\">");
    for change in found.iter_all_changes() {
        html.raw(match change.tag() {
            ChangeTag::Equal => "<span class=\"same\">  ",
            ChangeTag::Delete => "<del>- ",
            ChangeTag::Insert => "<ins>+ ",
        });
        html.shown(change.value().trim_end_matches('\n'));
        html.raw(match change.tag() {
            ChangeTag::Equal => "</span>\n",
            ChangeTag::Delete => "</del>\n",
            ChangeTag::Insert => "</ins>\n",
        });
    }
    html.raw("</pre>");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_stand_beside_each_other() {
        let html = diff("{\n  \"a\": 1\n}", "{\n  \"a\": \"<2>\"\n}").into_string();
        let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} in {html}"));
        assert!(
            at("<del>-   &quot;a&quot;: 1</del>") < at("<ins>+   &quot;a&quot;: &quot;&lt;2&gt;&quot;</ins>")
        );
        assert!(at("<span class=\"same\">  {</span>") < at("<del>"));
    }
}
