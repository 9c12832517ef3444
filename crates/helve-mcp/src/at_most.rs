//! Lists from outside, read only as far as they are wanted.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// The first items of a list.
#[derive(Debug)]
pub(crate) struct First<T> {
    pub(crate) items: Vec<T>,
    /// Whether there were more, of which nothing was kept.
    pub(crate) has_more: bool,
}

/// Reads a list of which at most `limit` items are kept. A message of a few megabytes can hold a million small
/// ones, each of which takes many times its text once it is read.
pub(crate) fn at_most<'de, T: Deserialize<'de>>(
    text: &'de str,
    limit: usize,
) -> Result<First<T>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = AtMost { limit, of: PhantomData }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(read)
}

struct AtMost<T> {
    limit: usize,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for AtMost<T> {
    type Value = First<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<First<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = First<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<First<T>, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.limit {
            match list.next_element()? {
                Some(item) => items.push(item),
                None => return Ok(First { items, has_more: false }),
            }
        }
        let mut has_more = false;
        while list.next_element::<IgnoredAny>()?.is_some() {
            has_more = true;
        }
        Ok(First { items, has_more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_kept_as_far_as_it_is_wanted_and_read_to_its_end() {
        let read =
            |text, limit| at_most::<u8>(text, limit).map(|First { items, has_more }| (items, has_more));
        assert_eq!(read("[1, 2, 3]", 3).unwrap(), (vec![1, 2, 3], false));
        assert_eq!(read("[1, 2, \"x\"]", 2).unwrap(), (vec![1, 2], true));
        assert_eq!(read("[]", 0).unwrap(), (vec![], false));
        for broken in ["[1, 2", "[1, 2, }]", "[1] 2", "{}", "1"] {
            assert!(read(broken, 1).is_err(), "{broken}");
        }
    }

    #[test]
    fn what_is_not_kept_is_not_even_built() {
        /// Counts how many were built.
        struct Built;
        static BUILT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        impl<'de> Deserialize<'de> for Built {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                BUILT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                IgnoredAny::deserialize(deserializer).map(|_| Self)
            }
        }
        let many = format!("[{}{{}}]", "{},".repeat(10_000));
        assert!(at_most::<Built>(&many, 7).unwrap().has_more);
        assert_eq!(BUILT.load(std::sync::atomic::Ordering::Relaxed), 7);
    }
}
