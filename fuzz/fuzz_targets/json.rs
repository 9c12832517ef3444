//! JSON from outside: the strict reader agrees with serde_json on what it takes, and refuses the rest for a reason.
#![no_main]

use std::collections::HashSet;
use std::fmt;

use helve_schema::json::{JsonError, JsonLimits, canonical, check, parse, size, size_bounds};
use libfuzzer_sys::fuzz_target;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

const LIMITS: JsonLimits = JsonLimits { bytes: 4_096, values: 100, depth: 8 };

fuzz_target!(|text: &[u8]| {
    let second = serde_json::from_slice::<Value>(text);
    match parse(text, LIMITS) {
        Ok(value) => {
            assert_eq!(&value, second.as_ref().expect("serde_json reads what we read"));
            assert!(!serde_json::from_slice::<Twice>(text).expect("it is JSON").0, "a key twice was taken");
            assert!(check(&value, LIMITS).is_ok(), "what was read is within the limits");
            let written = canonical(&value);
            assert_eq!(parse(written.as_bytes(), JsonLimits::default()).expect("our own JSON"), value);
            let bounds = size_bounds(&value);
            assert_eq!(size(&value), value.to_string().len());
            assert!(bounds.least <= size(&value) && size(&value) <= bounds.most);
        }
        Err(JsonError::Syntax(_)) => {
            let twice = serde_json::from_slice::<Twice>(text).is_ok_and(|twice| twice.0);
            assert!(second.is_err() || twice, "JSON was refused without a reason");
        }
        Err(JsonError::Integer { digits }) => assert!(digits.chars().count() <= 25),
        Err(JsonError::Nul { .. }) => assert!(second.expect("it is JSON").to_string().contains("\\u0000")),
        Err(error) => assert!(text.len() > 8, "beyond the limits: {error}"),
    }
});

/// Whether an object has a key twice, at any level.
struct Twice(bool);

impl<'de> Deserialize<'de> for Twice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Twice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E>(self) -> Result<Twice, E> {
                Ok(Twice(false))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Twice, E> {
                Ok(Twice(false))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Twice, E> {
                Ok(Twice(false))
            }
            fn visit_u64<E>(self, _: u64) -> Result<Twice, E> {
                Ok(Twice(false))
            }
            fn visit_f64<E>(self, _: f64) -> Result<Twice, E> {
                Ok(Twice(false))
            }
            fn visit_str<E>(self, _: &str) -> Result<Twice, E> {
                Ok(Twice(false))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Twice, A::Error> {
                let mut twice = false;
                while let Some(item) = items.next_element::<Twice>()? {
                    twice |= item.0;
                }
                Ok(Twice(twice))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Twice, A::Error> {
                let (mut twice, mut keys) = (false, HashSet::new());
                while let Some((key, value)) = fields.next_entry::<String, Twice>()? {
                    twice |= !keys.insert(key) || value.0;
                }
                Ok(Twice(twice))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
