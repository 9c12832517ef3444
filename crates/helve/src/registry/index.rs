//! Search by words: BM25 over names, descriptions, `when_to_use` and parameter names.

use std::collections::HashMap;

use serde_json::Value;

use super::Registered;

/// BM25's usual constants: how fast repetition stops counting, and how much length matters.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// A word in the name says more than one in the description.
const NAME_WEIGHT: f32 = 3.0;

/// Words of a query beyond this are ignored.
const QUERY_WORDS_MAX: usize = 32;

/// Words that say nothing about what is looked for.
const STOP_WORDS: [&str; 16] =
    ["a", "an", "and", "as", "for", "from", "in", "is", "it", "my", "of", "on", "or", "the", "to", "with"];

#[derive(Default)]
pub(super) struct Index {
    /// Tools with each word.
    postings: HashMap<String, Vec<Posting>>,
    names: Field,
    texts: Field,
}

/// How often a word stands in a tool's name, and in its texts.
struct Posting {
    place: u32,
    in_name: u16,
    in_text: u16,
}

/// How many words each tool has in a field. Name and text are measured apart: a long description
/// must not make a short name count less.
#[derive(Default)]
struct Field {
    lengths: Vec<f32>,
    mean: f32,
}

impl Field {
    fn of(lengths: Vec<f32>) -> Self {
        let mean = (lengths.iter().sum::<f32>() / lengths.len().max(1) as f32).max(1.0);
        Self { lengths, mean }
    }

    fn saturation(&self, place: usize, count: u16) -> f32 {
        let count = f32::from(count);
        count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * self.lengths[place] / self.mean))
    }
}

impl Index {
    pub(super) fn of(tools: &[Registered]) -> Self {
        let mut postings: HashMap<String, Vec<Posting>> = HashMap::new();
        let (mut names, mut texts) = (Vec::with_capacity(tools.len()), Vec::with_capacity(tools.len()));
        let mut counts: HashMap<String, (u16, u16)> = HashMap::new();
        for (place, registered) in tools.iter().enumerate() {
            count_words(registered, &mut counts);
            names.push(counts.values().map(|(name, _)| f32::from(*name)).sum());
            texts.push(counts.values().map(|(_, text)| f32::from(*text)).sum());
            for (word, (in_name, in_text)) in counts.drain() {
                postings.entry(word).or_default().push(Posting { place: place as u32, in_name, in_text });
            }
        }
        Self { postings, names: Field::of(names), texts: Field::of(texts) }
    }

    /// Places of the best tools with their scores, best first.
    pub(super) fn search(&self, query: &str, limit: usize) -> Vec<(usize, f32)> {
        let mut scores = vec![0.0f32; self.names.lengths.len()];
        let mut touched = Vec::new();
        let wanted = words(query).filter(|word| !STOP_WORDS.contains(&word.as_str()));
        for word in wanted.take(QUERY_WORDS_MAX) {
            let Some(postings) = self.postings.get(&word) else { continue };
            let rarity = self.rarity(postings.len());
            for posting in postings {
                let place = posting.place as usize;
                if scores[place] == 0.0 {
                    touched.push(place);
                }
                let in_name = NAME_WEIGHT * self.names.saturation(place, posting.in_name);
                scores[place] += rarity * (in_name + self.texts.saturation(place, posting.in_text));
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
        let (all, with) = (self.names.lengths.len() as f32, with_word as f32);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }
}

fn count_words(registered: &Registered, counts: &mut HashMap<String, (u16, u16)>) {
    let definition = registered.tool.definition();
    let title = definition.annotations.title.as_deref();
    let aliases = definition.aliases.iter().map(String::as_str);
    for word in [definition.name.as_str()].into_iter().chain(title).chain(aliases).flat_map(words) {
        let count = &mut counts.entry(word).or_default().0;
        *count = count.saturating_add(1);
    }
    let parameters = definition.input_schema.get("properties").and_then(Value::as_object);
    let parameters = parameters.into_iter().flat_map(|fields| fields.keys()).map(String::as_str);
    let texts = [definition.description.as_str()].into_iter().chain(definition.when_to_use.as_deref());
    for word in texts.chain(parameters).flat_map(words) {
        let count = &mut counts.entry(word).or_default().1;
        *count = count.saturating_add(1);
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
