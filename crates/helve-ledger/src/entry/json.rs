//! JSON objects, written member by member into text that is there already.

use helve_core::record::RawJson;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Result;

/// A member's name as it is written. Nothing in it is to be escaped.
macro_rules! key {
    ($name:literal) => {
        concat!("\"", $name, "\":")
    };
    ($name:literal, $opening:literal) => {
        concat!("\"", $name, "\":", $opening)
    };
}
pub(super) use key;

/// The text. Every member ends with a comma, of which the last one makes way for what closes.
pub(super) struct Json<'a>(pub(super) &'a mut Vec<u8>);

impl Json<'_> {
    /// Writes what is JSON already.
    pub(super) fn push(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Ends an object or a list, which is a member itself.
    pub(super) fn close(&mut self, end: &str) {
        self.0.pop_if(|last| *last == b',');
        self.push(end);
        self.push(",");
    }

    /// Ends the outermost object.
    pub(super) fn finish(&mut self) {
        self.close("}");
        self.0.pop();
    }

    pub(super) fn value<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<()> {
        self.push(key);
        serde_json::to_writer(&mut *self.0, value)?;
        self.push(",");
        Ok(())
    }

    /// A value that is left out where there is none.
    pub(super) fn some<T: Serialize + ?Sized>(&mut self, key: &str, value: Option<&T>) -> Result<()> {
        value.map_or(Ok(()), |value| self.value(key, value))
    }

    /// A list that is left out where it is empty.
    pub(super) fn many<T: Serialize>(&mut self, key: &str, values: &[T]) -> Result<()> {
        if values.is_empty() { Ok(()) } else { self.value(key, values) }
    }

    /// A word of ours, in which nothing is to be escaped.
    pub(super) fn word(&mut self, key: &str, word: &str) {
        [key, "\"", word, "\","].into_iter().for_each(|piece| self.push(piece));
    }

    pub(super) fn flag(&mut self, key: &str, flag: bool) {
        self.push(key);
        self.push(if flag { "true," } else { "false," });
    }

    /// A flag that is left out where it is false.
    pub(super) fn flag_if(&mut self, key: &str, flag: bool) {
        if flag {
            self.flag(key, flag);
        }
    }

    /// A value that was written before, left out where there is none.
    pub(super) fn raw(&mut self, key: &str, json: Option<&RawJson>) {
        if let Some(json) = json {
            [key, json.get(), ","].into_iter().for_each(|piece| self.push(piece));
        }
    }

    /// A time, as `second` helps.
    pub(super) fn time(&mut self, key: &str, at: Timestamp, second: &mut Second) -> Result<()> {
        // Before 1970 the parts of a second count the other way.
        let nanos = match u32::try_from(at.subsec_nanosecond()) {
            Ok(nanos) if at.as_second() > 0 => nanos,
            Ok(_) | Err(_) => return self.value(key, &at),
        };
        if second.number != at.as_second() {
            second.set(at)?;
        }
        self.push(key);
        self.0.extend_from_slice(&second.text);
        self.fraction(nanos);
        self.push("Z\",");
        Ok(())
    }

    /// What a time has beyond its second, without zeros at the end.
    fn fraction(&mut self, mut nanos: u32) {
        if nanos == 0 {
            return;
        }
        let mut digits = *b".000000000";
        for digit in digits[1..].iter_mut().rev() {
            *digit += (nanos % 10) as u8;
            nanos /= 10;
        }
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        self.0.extend_from_slice(&digits[..digits.len() - zeros]);
    }
}

/// A second of the clock, with its quote and its text but for the `Z`. Most times are within the
/// same second as the time before.
#[derive(Default)]
pub(super) struct Second {
    number: i64,
    text: Vec<u8>,
}

impl Second {
    fn set(&mut self, at: Timestamp) -> Result<()> {
        self.number = 0;
        self.text.clear();
        let whole = at - SignedDuration::from_nanos(at.subsec_nanosecond().into());
        serde_json::to_writer(&mut self.text, &whole)?;
        self.text.truncate(self.text.len() - "Z\"".len());
        self.number = at.as_second();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn times_are_written_as_the_clock_writes_them(
            second in prop_oneof![-3i64..3, 1_700_000_000i64..1_700_000_003, any::<i32>().prop_map(i64::from)],
            nanos in prop_oneof![
                Just(0), Just(1), Just(999_999_999), (0..1_000i32).prop_map(|n| n * 1_000_000), 0..1_000_000_000i32
            ],
            before in 1_700_000_000i64..1_700_000_003,
        ) {
            let mut known = Second::default();
            known.set(Timestamp::from_second(before).unwrap()).unwrap();
            let at = Timestamp::new(second, nanos).unwrap();
            let mut text = Vec::new();
            Json(&mut text).time("", at, &mut known).unwrap();
            prop_assert_eq!(String::from_utf8(text).unwrap(), format!("\"{at}\","));
        }
    }
}
