//! Pages in the session's short-term memory, as an effect of the tool.
//!
//! Keys are numbered and few, so that a session that reads thousands of pages keeps the last of
//! each number and no more; what is kept says which call it answers.

use helve::effect::{Change, Effect, MemoryOperation};
use helve::expression::Expression;
use helve::json::sha256_hex;
use helve::memory::MemoryScope;
use helve::template::Template;
use helve::{Context, Reads};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::super::config::ScrapeConfig;
use super::Input;
use super::page::Output;

/// Largest page that is kept. With 256 keys, a session keeps at most 32 MiB.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// What is kept.
#[derive(Deserialize)]
struct Kept {
    arguments: Input,
    page: Output,
}

/// The effect that keeps a page, unless nothing is to be kept.
pub(super) fn effect(config: &ScrapeConfig) -> Option<Effect> {
    let template = |value| Template::parse(value).expect("it is fixed text, and a test makes it");
    let change = Change::Memory {
        scope: MemoryScope::ShortTerm,
        operation: MemoryOperation::Write,
        key: template(json!("{{ result.remembered_as }}")),
        value: Some(template(json!({ "arguments": "{{ arguments }}", "page": "{{ result }}" }))),
        ttl_ms: Some(config.remember_ms),
    };
    let when = Expression::parse("result.remembered_as").expect("it is fixed text, and a test makes it");
    (config.remember_ms > 0).then(|| Effect::new("Cache scraped content", change).reversible().when(when))
}

/// Says under which key a page is kept, if it is small enough to be.
pub(super) fn mark(input: &Input, output: &mut Output) {
    let size = serde_json::to_string(output).map_or(usize::MAX, |text| text.len());
    output.remembered_as = (size <= KEPT_BYTES_MAX).then(|| key(input));
}

/// The page of an earlier call with the same arguments, if it is young enough for this one.
pub(super) async fn recall(input: &Input, context: &Context) -> Option<Output> {
    if input.max_age_ms == 0 {
        return None;
    }
    // Memory that cannot be read is no reason not to read the page.
    let found = context.memory().read(MemoryScope::ShortTerm, &key(input)).await.ok()??;
    let Kept { arguments, mut page } = serde_json::from_value(found.value).ok()?;
    let age = Timestamp::now().as_millisecond().saturating_sub(page.timestamp);
    let young = u64::try_from(age).is_ok_and(|age| age <= input.max_age_ms);
    let same = Input { max_age_ms: input.max_age_ms, ..arguments } == *input;
    // A name may have led somewhere else then, and this call's session was labelled by where it leads now.
    let is_labelled = !page.private || context.reads() == Reads::Private;
    (young && same && is_labelled).then(|| {
        (page.cached, page.remembered_as) = (true, None);
        page
    })
}

fn key(input: &Input) -> String {
    let asked = Input { max_age_ms: 0, ..input.clone() };
    let digest = sha256_hex(serde_json::to_string(&asked).unwrap_or_default().as_bytes());
    format!("web:cache/{}", &digest[..2])
}
