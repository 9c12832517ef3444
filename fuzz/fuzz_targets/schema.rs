//! A schema of a stranger on the first line, a value on the second: checking ends, and every view of the value agrees.
#![no_main]

use helve_schema::Schema;
use helve_schema::json::{JsonLimits, parse};
use helve_schema::schema::Redactor;
use helve_schema::schema::example::corrected;
use helve_schema::schema::repair::repair;
use libfuzzer_sys::fuzz_target;

const LIMITS: JsonLimits = JsonLimits { bytes: 4_096, values: 500, depth: 24 };

fuzz_target!(|text: &[u8]| {
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(schema) = parse(&text[..end], LIMITS) else { return };
    let Ok(schema) = Schema::compile(schema) else { return };
    let Ok(sent) = parse(&text[end + 1..], LIMITS) else { return };

    let fits = schema.accepts(&sent);
    match schema.validate(&sent) {
        Ok(()) => assert!(fits),
        Err(errors) => assert!(!fits && !errors.is_empty() && errors.len() <= 100),
    }
    let redactor = Redactor::default();
    let shown = redactor.redact(Some(&schema), &sent).into_owned();
    assert!(redactor.has_secret(Some(&schema), &sent) || shown == sent, "only secrets are hidden");
    let mut whole = sent.clone();
    schema.write_whole(&mut whole);
    assert!(!fits || schema.accepts(&whole), "5.0 and 5 are one number");
    if schema.can_explain(&sent) {
        let mut mended = sent.clone();
        match repair(&schema, &mut mended) {
            Some(_) => assert!(schema.accepts(&mended)),
            None => assert_eq!(mended, sent, "what cannot be mended stays as it is"),
        }
        if let Some(example) = corrected(&schema, &sent, &[], &redactor) {
            assert!(schema.accepts(&example));
        }
    }
    let mut filled = sent;
    schema.apply_defaults(&mut filled);
});
