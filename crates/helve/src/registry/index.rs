//! Search by words: BM25 over names, descriptions, `when_to_use` and parameter names.

use std::collections::HashMap;

use serde_json::Value;

use super::Registered;

/// BM25's usual constants: how fast repetition stops counting, and how much length matters.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// A word in the name says more than one in the description.
const NAME_WEIGHT: u16 = 4;
const TEXT_WEIGHT: u16 = 1;

/// Words of a query beyond this are ignored.
const QUERY_WORDS_MAX: usize = 32;

#[derive(Default)]
pub(super) struct Index {
    /// Tools with each word, and how often (weighted) it stands in them.
    postings: HashMap<String, Vec<(u32, u16)>>,
    lengths: Vec<f32>,
    mean_length: f32,
}

impl Index {
    pub(super) fn of(tools: &[Registered]) -> Self {
        let mut index = Self { lengths: Vec::with_capacity(tools.len()), ..Self::default() };
        let mut counts: HashMap<String, u16> = HashMap::new();
        for (place, registered) in tools.iter().enumerate() {
            count_words(registered, &mut counts);
            index.lengths.push(counts.values().map(|count| f32::from(*count)).sum());
            for (word, count) in counts.drain() {
                index.postings.entry(word).or_default().push((place as u32, count));
            }
        }
        let total: f32 = index.lengths.iter().sum();
        index.mean_length = (total / tools.len().max(1) as f32).max(1.0);
        index
    }

    /// Places of the best tools with their scores, best first.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<(usize, f32)> {
        let mut scores = vec![0.0f32; self.lengths.len()];
        let mut touched = Vec::new();
        for word in words(query).take(QUERY_WORDS_MAX) {
            let Some(postings) = self.postings.get(&word) else { continue };
            let rarity = self.rarity(postings.len());
            for (place, count) in postings {
                let place = *place as usize;
                if scores[place] == 0.0 {
                    touched.push(place);
                }
                scores[place] += rarity * self.saturation(place, f32::from(*count));
            }
        }
        let mut found: Vec<_> = touched.into_iter().map(|place| (place, scores[place])).collect();
        // Equal scores fall back to the order of names, so that a search is repeatable.
        let best_first = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if found.len() > limit {
            found.select_nth_unstable_by(limit, best_first);
            found.truncate(limit);
        }
        found.sort_unstable_by(best_first);
        found
    }

    fn rarity(&self, with_word: usize) -> f32 {
        let (all, with) = (self.lengths.len() as f32, with_word as f32);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }

    fn saturation(&self, place: usize, count: f32) -> f32 {
        count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * self.lengths[place] / self.mean_length))
    }
}

fn count_words(registered: &Registered, counts: &mut HashMap<String, u16>) {
    let definition = registered.tool.definition();
    let mut add = |text: &str, weight: u16| {
        for word in words(text) {
            let count = counts.entry(word).or_default();
            *count = count.saturating_add(weight);
        }
    };
    add(definition.name.as_str(), NAME_WEIGHT);
    for alias in &definition.aliases {
        add(alias, NAME_WEIGHT);
    }
    add(definition.annotations.title.as_deref().unwrap_or_default(), NAME_WEIGHT);
    add(&definition.description, TEXT_WEIGHT);
    add(definition.when_to_use.as_deref().unwrap_or_default(), TEXT_WEIGHT);
    let parameters = definition.input_schema.get("properties").and_then(Value::as_object);
    for name in parameters.into_iter().flat_map(|fields| fields.keys()) {
        add(name, TEXT_WEIGHT);
    }
}

/// Words in lower case, split at signs and at `camelCase`, without a plural `s`.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).flat_map(split_camel).map(|word| {
        let mut word = word.to_lowercase();
        let plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
        if plural {
            word.pop();
        }
        word
    })
}

fn split_camel(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut former_is_lower = false;
        let end = rest.char_indices().find_map(|(place, c)| {
            let boundary = former_is_lower && c.is_uppercase();
            former_is_lower = c.is_lowercase() || c.is_numeric();
            boundary.then_some(place)
        });
        let (head, tail) = rest.split_at(end.unwrap_or(rest.len()));
        rest = tail;
        Some(head)
    })
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_split_and_folded() {
        let found: Vec<_> = words("searchEmails for the user_ID, glass & Kafkas 3D").collect();
        assert_eq!(found, ["search", "email", "for", "the", "user", "id", "glass", "kafka", "3", "d"]);
    }
}
