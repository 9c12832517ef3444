//! How long a value is as JSON, without writing it.
//!
//! Nearly all the time goes into long texts, so bytes are counted side by side: the loops have no
//! branches, and sums that fit in a byte, which lets the compiler use the processor's wide registers.

use serde_json::Value;

/// How many bytes a value takes as JSON, found out without writing it.
///
/// ```
/// use helve_schema::json::size;
/// use serde_json::json;
/// let value = json!({ "text": "a \"word\"\n", "n": [1, 2.5, null] });
/// assert_eq!(size(&value), value.to_string().len());
/// ```
pub fn size(value: &Value) -> usize {
    measure(value, &text_size)
}

/// Between which bounds the size of a value as JSON is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeBounds {
    /// Its size, did no character need an escape.
    pub least: usize,
    /// Its size, did each.
    pub most: usize,
}

/// Like [`size`], but without looking at what its texts hold.
///
/// ```
/// use helve_schema::json::{size, size_bounds};
/// let value = serde_json::json!(["a \"word\"\n", 2.5]);
/// let bounds = size_bounds(&value);
/// assert!(bounds.least <= size(&value) && size(&value) <= bounds.most);
/// ```
pub fn size_bounds(value: &Value) -> SizeBounds {
    /// What a control character takes: `\u0000`.
    const ESCAPE_BYTES: usize = 6;
    let least = measure(value, &|text| text.len() + 2);
    SizeBounds {
        least,
        most: measure(value, &|text| text.len().saturating_mul(ESCAPE_BYTES).saturating_add(2)),
    }
}

/// Adds up a value, of whose texts another says how long they are.
fn measure(value: &Value, text_size: &impl Fn(&str) -> usize) -> usize {
    /// Brackets, and a comma between two.
    fn listed(items: usize) -> usize {
        2 + items.saturating_sub(1)
    }
    match value {
        Value::Null => 4,
        Value::Bool(is) => 5 - usize::from(*is),
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text_size(text),
        Value::Array(items) => {
            listed(items.len()) + items.iter().map(|item| measure(item, text_size)).sum::<usize>()
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| text_size(key) + 1 + measure(value, text_size);
            listed(fields.len()) + fields.iter().map(field).sum::<usize>()
        }
    }
}

/// Bytes that are looked at side by side.
const COLUMNS: usize = 32;
/// So few that what is counted in a column fits in a byte.
const ROWS: usize = 255;

/// A text between quotes.
fn text_size(text: &str) -> usize {
    let (rows, rest) = text.as_bytes().as_chunks::<COLUMNS>();
    2 + text.len() + rows.chunks(ROWS).map(added_by_rows).sum::<usize>() + added(rest)
}

/// How many bytes escaping adds. What texts are full of has a short escape and adds one; other
/// control characters add five, but are so rare that finding out whether there are any is cheaper
/// than counting them.
fn added_by_rows(rows: &[[u8; COLUMNS]]) -> usize {
    let (mut short, mut least, mut vertical) = ([0; COLUMNS], [u8::MAX; COLUMNS], [0; COLUMNS]);
    for row in rows {
        for (column, byte) in row.iter().enumerate() {
            // This swap puts the quote right behind the control characters.
            short[column] += u8::from(byte ^ 2 <= 0x20) + u8::from(*byte == b'\\');
            // And this one puts tab, line feed, carriage return and backspace above all others but
            // the vertical tab.
            least[column] = least[column].min(byte ^ 22);
            vertical[column] |= u8::from(*byte == 11);
        }
    }
    let is_plain = least.iter().all(|least| *least >= 27) && vertical == [0; COLUMNS];
    if is_plain { short.into_iter().map(usize::from).sum() } else { added(rows.as_flattened()) }
}

/// The same, whatever there is.
fn added(bytes: &[u8]) -> usize {
    // The counts fit in a byte here too.
    const AT_ONCE: usize = 192;
    let added = |bytes: &[u8]| {
        let (mut escaped, mut long) = (0_u8, 0_u8);
        for byte in bytes {
            let control = *byte < 0x20;
            let short = (*byte >= 8) & (*byte <= 13) & (*byte != 11);
            escaped += u8::from(control | (*byte == b'"') | (*byte == b'\\'));
            long += u8::from(control & !short);
        }
        usize::from(escaped) + 4 * usize::from(long)
    };
    bytes.chunks(AT_ONCE).map(added).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: &Value) {
        let exact = value.to_string().len();
        assert_eq!(size(value), exact, "{value:.200}");
        let bounds = size_bounds(value);
        assert!((bounds.least..=bounds.most).contains(&exact), "{value:.200}");
    }

    #[test]
    fn the_size_of_every_character_is_that_of_its_json() {
        let all: String = ('\0'..'\u{300}').chain(['\u{2028}', '\u{FFFF}', '😀']).collect();
        for value in
            [json!(all.repeat(3)), json!({ all: [true, false, null, -1, 1e300, 0.1] }), json!([]), json!({})]
        {
            check(&value);
        }
    }

    #[test]
    fn one_character_in_a_long_text_is_counted_wherever_it_stands() {
        const LENGTH: usize = 2 * COLUMNS * ROWS + 5;
        for char in '\0'..'\u{80}' {
            check(&json!(char.to_string().repeat(LENGTH)));
            for at in [0, COLUMNS - 1, COLUMNS * ROWS - 1, COLUMNS * ROWS, LENGTH - 1] {
                let mut text = "plain\t\r\n".repeat(LENGTH);
                text.truncate(LENGTH);
                text.insert(at, char);
                check(&Value::from(text));
            }
        }
    }
}
