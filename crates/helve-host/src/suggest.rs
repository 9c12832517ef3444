//! What a mistyped word was probably meant to be.

/// The nearest of `known` to `word`, where one is near enough to be worth saying.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const ENOUGH: f64 = 0.8;
    const CONTAINED: f64 = 0.85;
    // A hostile word may be megabytes long; comparing is quadratic.
    let word: String = word.chars().take(128).collect();
    let score = |candidate: &str| {
        let contained = word.len() >= 4 && (candidate.contains(&word) || word.contains(candidate));
        strsim::jaro_winkler(&word, candidate).max(if contained { CONTAINED } else { 0.0 })
    };
    known
        .into_iter()
        .map(|candidate| (score(candidate), candidate))
        .filter(|(score, _)| *score >= ENOUGH)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
