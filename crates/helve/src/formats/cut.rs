//! Makes long results fit a budget, and says what was left out.

use std::io;

use serde_json::{Map, Value};

/// Most places that a note names.
const NOTES_MAX: usize = 8;
/// A shortened part smaller than this tells a model nothing.
const PART_BYTES_MIN: usize = 24;

/// The beginning of a text, at most `bytes_max` long: cut after a line or a word where one ends in
/// its last fifth, else between characters.
pub(super) fn cut_text(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let head = &text[..text.floor_char_boundary(bytes_max)];
    let tail_start = head.floor_char_boundary(head.len() - head.len() / 5);
    let tail = &head[tail_start..];
    match tail.rfind('\n').or_else(|| tail.rfind(char::is_whitespace)) {
        Some(end) => head[..tail_start + end].trim_end(),
        None => head,
    }
}

/// A value that fits, and a line for each place where something is missing.
pub(super) struct Cut {
    pub(super) value: Value,
    pub(super) notes: Vec<String>,
}

/// Shortens a value until its JSON has at most `bytes_max` bytes: whole items of lists from the
/// front, whole fields of objects, small ones first.
pub(super) fn cut_value(value: &Value, bytes_max: usize) -> Cut {
    let mut cutter = Cutter { path: String::new(), notes: Vec::new() };
    let value = cutter.shrink(value, bytes_max).unwrap_or(Value::Null);
    Cut { value, notes: cutter.notes }
}

/// How many bytes a value's JSON has.
pub(super) fn json_bytes(value: &Value) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).expect("counting bytes cannot fail");
    counter.0
}

struct Cutter {
    /// JSON Pointer to where we are.
    path: String,
    notes: Vec<String>,
}

impl Cutter {
    /// What of `value` fits in `room`, or nothing.
    fn shrink(&mut self, value: &Value, room: usize) -> Option<Value> {
        if json_bytes(value) <= room {
            return Some(value.clone());
        }
        if room < PART_BYTES_MIN {
            return None;
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
            Value::String(text) => Some(self.shrink_text(text, room)),
            Value::Array(items) => Some(self.shrink_list(items, room)),
            Value::Object(fields) => Some(self.shrink_fields(fields, room)),
        }
    }

    fn shrink_text(&mut self, text: &str, room: usize) -> Value {
        const MARK: &str = "…";
        let mut bytes_max = room - MARK.len() - 2;
        loop {
            let kept = cut_text(text, bytes_max);
            let value = Value::from(format!("{kept}{MARK}"));
            // Quotes and line ends grow when they are escaped.
            let bytes = json_bytes(&value);
            if bytes <= room {
                self.note(format!("the first {} of {} bytes", kept.len(), text.len()));
                return value;
            }
            bytes_max = (bytes_max * room / bytes).min(bytes_max - 1);
        }
    }

    fn shrink_list(&mut self, items: &[Value], room: usize) -> Value {
        let mut left = room - 2;
        let mut kept = Vec::new();
        for item in items {
            let bytes = json_bytes(item) + 1;
            if bytes > left {
                break;
            }
            left -= bytes;
            kept.push(item.clone());
        }
        // Part of one item is better than none.
        if let (true, Some(first)) = (kept.is_empty(), items.first()) {
            kept.extend(self.within("0", |this| this.shrink(first, left)));
        }
        self.note(format!("the first {} of {} items", kept.len(), items.len()));
        kept.into()
    }

    fn shrink_fields(&mut self, fields: &Map<String, Value>, room: usize) -> Value {
        let mut sized: Vec<_> = fields.iter().map(|(key, value)| (json_bytes(value), key, value)).collect();
        // Small fields are kept whole; what they leave is shared out among the large ones.
        sized.sort_by_key(|(bytes, _, _)| *bytes);
        let mut left = room - 2;
        let mut kept = Map::new();
        let mut missing = Vec::new();
        let count = sized.len();
        for (index, (_, key, value)) in sized.into_iter().enumerate() {
            let name_bytes = json_bytes(&Value::from(key.as_str())) + 2;
            let share = left / (count - index);
            let shrunk = share
                .checked_sub(name_bytes)
                .and_then(|share| self.within(key, |this| this.shrink(value, share)));
            match shrunk {
                Some(value) => {
                    left -= name_bytes + json_bytes(&value);
                    kept.insert(key.clone(), value);
                }
                None => missing.push(key.as_str()),
            }
        }
        if !missing.is_empty() {
            let named: Vec<_> = missing.iter().take(5).map(|name| cut_text(name, 40)).collect();
            let more = if missing.len() > named.len() { " and others" } else { "" };
            self.note(format!("{} of {count} fields missing ({}{more})", missing.len(), named.join(", ")));
        }
        kept.into()
    }

    fn within<T>(&mut self, key: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(cut_text(key, 40));
        let done = work(self);
        self.path.truncate(length);
        done
    }

    fn note(&mut self, what: String) {
        if self.notes.len() < NOTES_MAX {
            let place = if self.path.is_empty() { String::new() } else { format!("`{}`: ", self.path) };
            self.notes.push(format!("{place}{what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn texts_are_cut_at_lines_words_and_characters() {
        assert_eq!(cut_text("short", 10), "short");
        assert_eq!(cut_text("line one\nline two and more", 10), "line one");
        assert_eq!(cut_text("aaaa bbbb cccc dddd", 16), "aaaa bbbb cccc");
        assert_eq!(cut_text("漢漢漢漢", 7), "漢漢");
        assert_eq!(cut_text("ä", 0), "");
    }

    #[test]
    fn a_list_in_an_object_keeps_whole_items_and_the_small_fields() {
        let rows: Vec<_> = (0..500).map(|id| json!({ "id": id, "name": "row" })).collect();
        let cut = cut_value(&json!({ "total": 500, "rows": rows, "next": "abc" }), 300);
        assert_eq!(cut.value["total"], 500);
        assert_eq!(cut.value["next"], "abc");
        let kept = cut.value["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(kept.len() > 5 && kept.iter().all(|row| row["name"] == "row"), "{kept:?}");
        assert_eq!(cut.notes, [format!("`/rows`: the first {} of 500 items", kept.len())]);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            "[a-z \"\\\\\n漢]{0,60}".prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                proptest::collection::btree_map("[a-z]{1,8}", inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_cut_value_always_fits_and_says_so(value in values(), room in 24usize..400) {
            let cut = cut_value(&value, room);
            prop_assert!(json_bytes(&cut.value) <= room);
            prop_assert_eq!(cut.notes.is_empty(), cut.value == value);
        }
    }
}
