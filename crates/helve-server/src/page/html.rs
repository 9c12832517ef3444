//! Writing HTML so that nothing from outside can become markup.
//!
//! INVARIANT: markup is what stands in the source code, `&'static str`; every value is escaped on its
//! way in, for text and for quoted attributes alike, and what hides in it is made visible.

use std::fmt::{Display, Write as _};

use helve::hidden;

use super::visible;

/// HTML in the making.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Markup as it stands.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Markup with a value in the place of each `{}`.
    pub(super) fn put(&mut self, markup: &'static str, values: &[&dyn Display]) -> &mut Self {
        debug_assert_eq!(markup.matches("{}").count(), values.len(), "{markup}");
        let mut values = values.iter();
        for (n, piece) in markup.split("{}").enumerate() {
            if n > 0
                && let Some(value) = values.next()
            {
                // Writing to it never fails.
                let _ = write!(Escaped(&mut self.0), "{value}");
            }
            self.0.push_str(piece);
        }
        self
    }

    /// A text from outside, with what hides in it highlighted.
    pub(super) fn shown(&mut self, text: &str) -> &mut Self {
        for piece in visible::pieces(text) {
            match piece {
                visible::Piece::Plain(text) => self.put("{}", &[&text]),
                visible::Piece::Hidden { escape, name } => {
                    self.put("<mark class=\"hid\" title=\"{}\">{}</mark>", &[&name, &escape])
                }
            };
        }
        self
    }

    /// The same for a sentence in which names stand between backticks, as they do in Helve's own.
    pub(super) fn sentence(&mut self, text: &str) -> &mut Self {
        let pieces: Vec<_> = text.split('`').collect();
        if pieces.len() % 2 == 0 {
            return self.shown(text);
        }
        for (n, piece) in pieces.into_iter().enumerate() {
            match n % 2 {
                0 => self.shown(piece),
                _ => self.raw("<code>").shown(piece).raw("</code>"),
            };
        }
        self
    }

    /// HTML that was written before.
    pub(super) fn add(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Escapes whatever is written to it.
struct Escaped<'a>(&'a mut String);

impl std::fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c if hidden::kind(c).is_some() => self.0.extend(c.escape_unicode()),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_never_become_markup() {
        let mut html = Html::default();
        let evil = "\"><script>alert('1')</script>&\u{202e}";
        html.put("<a title=\"{}\">{}</a>", &[&evil, &7]);
        assert_eq!(
            html.into_string(),
            "<a title=\"&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;\\u{202e}\">7</a>"
        );
        let mut html = Html::default();
        html.shown("a\u{202e}<b>");
        assert_eq!(
            html.into_string(),
            "a<mark class=\"hid\" title=\"right-to-left override\">\\u{202e}</mark>&lt;b&gt;"
        );
        let mut html = Html::default();
        html.sentence("`<a>` is high").sentence(" and `<b> stays");
        assert_eq!(html.into_string(), "<code>&lt;a&gt;</code> is high and `&lt;b&gt; stays");
    }
}
