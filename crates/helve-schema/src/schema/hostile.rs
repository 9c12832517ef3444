//! Schemas that say one thing to us and another to the validator, and values that are small for us and
//! long for it.

use serde_json::{Map, Value, json};

use super::{Redactor, Schema};

fn refusal(schema: Value) -> String {
    match Schema::compile(schema) {
        Ok(_) => "accepted".to_owned(),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

fn compile(schema: Value) -> Schema {
    Schema::compile(schema).unwrap()
}

/// What is said of a value that is refused.
fn said(schema: &Schema, value: &Value) -> String {
    schema.validate(value).unwrap_err()[0].message.clone()
}

/// `{ "f0": …, "f1": … }`
fn fields(count: usize, field: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..count).map(|n| (format!("f{n}"), field(n))).collect()
}

fn refer(at: &str) -> Value {
    json!({ "$ref": at })
}

#[test]
fn references_are_followed_where_no_keyword_leads() {
    let chain = |length: usize| {
        let link =
            |n| if n == length { json!({ "type": "object" }) } else { refer(&format!("#/x/f{}", n + 1)) };
        json!({ "type": "object", "$ref": "#/x/f0", "x": fields(length + 1, link) })
    };
    assert!(refusal(chain(24_000)).contains("one after the other"));
    assert!(refusal(chain(2_000)).contains("one after the other"));
    assert_eq!(refusal(chain(500)), "accepted");
    let within = |schema: Value| {
        refusal(json!({ "type": "object", "properties": { "a": refer("#/x/y") }, "x": { "y": schema } }))
    };
    assert!(within(refer("https://example.com/a.json")).contains("/x/y/$ref: `https"));
    assert!(
        within(json!({ "not": refer("#/nowhere") })).contains("/x/y/not/$ref: `#/nowhere` points to nothing")
    );
    assert!(within(json!({ "not": { "$id": "urn:x" } })).contains("/x/y/not: a nested `$id`"));
    assert!(within(json!([1])).contains("must be an object"));
    let long = "n".repeat(40_000);
    let deep = (0..20)
        .fold(json!({ "allOf": vec![json!({}); 100] }), |inner, _| json!({ "properties": { &long: inner } }));
    assert!(within(deep).contains("too long"));
    let endless = json!({ "properties": { "b": { "allOf": [refer("#/x/y/properties/b")] } } });
    assert!(within(endless).contains("without ever descending"));
}

#[test]
fn secrets_are_found_where_no_keyword_leads() {
    let pin = json!({ "type": "string", "writeOnly": true });
    for schema in [
        json!({ "type": "object", "properties": { "pin": refer("#/components/schemas/Pin") },
            "components": { "schemas": { "Pin": pin } } }),
        json!({ "type": "object", "dependencies": { "pin": { "properties": { "pin": pin } } } }),
    ] {
        let schema = compile(schema);
        let shown = Redactor::default().redact(Some(&schema), &json!({ "pin": "s3cret" })).to_string();
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

/// A tower of schemas for the same value that all ask what was not looked at.
fn tower(levels: usize, keyword: &str, rest: &str) -> Value {
    let bottom = json!({ "properties": { "a": true } });
    (0..levels).fold(bottom, |inner, _| json!({ keyword: [inner], rest: false }))
}

#[test]
fn what_was_not_looked_at_is_not_asked_too_often() {
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for rest in ["unevaluatedProperties", "unevaluatedItems"] {
            assert!(refusal(tower(45, keyword, rest)).contains("parts"), "{keyword} {rest}");
        }
    }
    // It is asked at the end of a long way too.
    let link = |n| {
        if n == 900 { json!({ "properties": { "a": true } }) } else { refer(&format!("#/$defs/f{}", n + 1)) }
    };
    let schema = compile(json!({ "type": "object", "$ref": "#/$defs/f0", "anyOf": [true],
        "unevaluatedProperties": { "type": "string" }, "$defs": fields(901, link) }));
    assert!(schema.accepts(&json!({ "a": 1 })) && !schema.accepts(&json!({ "b": 1 })));
    assert!(!schema.validate(&json!({ "b": 1 })).unwrap_err().is_empty());
    let many = (0..3_000).map(|n| (format!("b{n}"), json!("x"))).collect::<Map<_, _>>();
    assert!(schema.accepts(&many.into()));
    let schema = compile(tower(7, "anyOf", "unevaluatedProperties"));
    assert!(schema.accepts(&json!({ "a": 1 })) && !schema.accepts(&json!({ "b": 1 })));
    // Each level of the value goes through the tower again.
    let mut again = tower(5, "anyOf", "unevaluatedProperties");
    again["unevaluatedProperties"] = refer("#");
    let deep = (0..60).fold(json!({}), |inner, _| json!({ "x": inner }));
    assert!(said(&compile(again), &deep).contains("too deeply nested"));
}

#[test]
fn a_schema_within_itself_does_not_hide_how_often_it_is_gone_through() {
    // Each of three leads to the one before in 64 ways, and is met first while that one is expanded.
    let mut defs = Map::new();
    for n in 0..3 {
        let mut way = if n == 0 { json!({}) } else { refer(&format!("#/$defs/m{}", n - 1)) };
        for level in 0..6 {
            defs.insert(format!("m{n}w{level}"), json!({ "allOf": [way, way] }));
            way = refer(&format!("#/$defs/m{n}w{level}"));
        }
        let next = refer(&format!("#/$defs/m{}", (n + 1).min(2)));
        defs.insert(
            format!("m{n}"),
            json!({ "properties": { "next": next }, "allOf": [way], "unevaluatedProperties": false }),
        );
    }
    let text = refusal(json!({ "type": "object", "$ref": "#/$defs/m0", "$defs": defs }));
    assert!(text.contains("parts"), "{text}");
}

#[test]
fn old_dependencies_are_followed() {
    let doubling = |n: usize| match n {
        40 => json!({ "type": "object" }),
        _ => {
            let next = refer(&format!("#/$defs/f{}", n + 1));
            json!({ "dependencies": { "a": { "allOf": [next, next] } } })
        }
    };
    let text = refusal(json!({ "type": "object", "$ref": "#/$defs/f0", "$defs": fields(41, doubling) }));
    assert!(text.contains("parts"), "{text}");
    assert!(refusal(json!({ "dependencies": { "a": refer("#") } })).contains("without ever descending"));
    let schema = compile(json!({ "type": "object", "dependencies": {
        "a": ["b"], "c": { "required": ["d"] } } }));
    for (value, fits) in [
        (json!({ "a": 1 }), false),
        (json!({ "a": 1, "b": 1 }), true),
        (json!({ "c": 1 }), false),
        (json!({ "c": 1, "d": 1 }), true),
    ] {
        assert_eq!(schema.accepts(&value), fits, "{value}");
    }
}

#[test]
fn references_mean_the_same_to_the_validator() {
    // Another draft, with a name for a part as it has them.
    let part = json!({ "$schema": "http://json-schema.org/draft-04/schema#", "id": "http://example.com/part",
        "type": "object", "properties": { "b": refer("#") } });
    let schema = compile(json!({ "type": "object", "required": ["a"], "properties": { "a": part } }));
    assert!(schema.accepts(&json!({ "a": { "b": { "a": {} } } })));
    assert!(!schema.accepts(&json!({ "a": { "b": {} } })));
    // The name of a schema that the validator knows.
    let schema = compile(json!({ "$id": "https://json-schema.org/draft/2020-12/schema",
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": { "n": refer("#/$defs/n"), "again": refer("#") }, "$defs": { "n": { "type": "integer" } } }));
    assert!(schema.accepts(&json!({ "n": 1, "again": { "n": 2 } })));
    assert!(!schema.accepts(&json!({ "again": { "n": "x" } })));
    // Two anchors of one name.
    let twice = json!({ "type": "object", "properties": { "a": refer("#n") }, "$defs": {
        "one": { "$anchor": "n", "type": "string" }, "two": { "$anchor": "n", "type": "integer" } } });
    assert!(refusal(twice).contains("the anchor `n` stands at"));
    let one = json!({ "$anchor": "n", "$dynamicAnchor": "n", "type": "object", "properties": { "a": refer("#n") } });
    assert_eq!(refusal(one), "accepted");
}

#[test]
fn long_values_are_long_work() {
    let object = |field: Value| compile(json!({ "type": "object", "properties": { "x": field } }));
    let all = |count: usize, one: Value| json!({ "allOf": vec![one; count] });
    let big: Vec<_> = (0..3).map(|n| json!([vec![7; 20_000], n])).collect();
    let words: Map<_, _> = (0..60_000).map(|n| (format!("w{n}"), json!(n))).collect();
    for (what, schema, value) in [
        (
            "items that differ",
            all(200, json!({ "uniqueItems": true })),
            json!((0..100_000).collect::<Vec<_>>()),
        ),
        ("long items that differ", all(1_000, json!({ "uniqueItems": true })), json!(big)),
        ("a long text", all(400, json!({ "pattern": "x$" })), json!("x".repeat(2 << 20))),
        ("names", json!({ "propertyNames": all(200, json!({ "pattern": "^w" })) }), words.into()),
        (
            "a long name",
            json!({ "propertyNames": all(400, json!({ "pattern": "x$" })) }),
            json!({ "x".repeat(2 << 20): 1 }),
        ),
        ("a long listed value", json!({ "anyOf": vec![refer("#/$defs/c"); 2_000] }), json!(vec![7; 20_000])),
    ] {
        let schema = json!({ "type": "object", "properties": { "x": schema },
            "$defs": { "c": { "const": vec![7; 20_001] } } });
        let text = said(&compile(schema), &json!({ "x": value }));
        assert!(text.contains("too large"), "{what}: {text}");
    }
    let mut table = fields(5, |_| json!({ "type": ["string", "integer"], "maxLength": 40 }));
    table.insert("id".to_owned(), json!({ "type": "string", "pattern": "^[a-z]+$" }));
    for (schema, value) in [
        (json!({ "type": "string" }), json!("x".repeat(4 << 20))),
        (json!({ "type": "string", "pattern": "^x", "maxLength": 5_000_000 }), json!("x".repeat(4 << 20))),
        (
            json!({ "type": "array", "items": { "type": "integer" }, "uniqueItems": true }),
            json!((0..100_000).collect::<Vec<_>>()),
        ),
        (
            json!({ "type": "array", "items": { "type": "object", "properties": table, "required": ["id"] } }),
            json!(vec![json!({ "id": "abc", "f0": 1, "f1": "text" }); 20_000]),
        ),
        (
            json!({ "type": "object", "propertyNames": { "pattern": "^f" }, "additionalProperties": { "type": "integer" } }),
            fields(20_000, |n| json!(n)).into(),
        ),
    ] {
        let value = json!({ "x": value });
        assert!(object(schema.clone()).accepts(&value), "{schema}");
    }
}

#[test]
fn patterns_are_as_much_work_as_they_can_make() {
    let long = "ab".repeat(500_000);
    let ambiguous = "[ab]*a[ab]{5000}";
    let looking = "^(?=.*[0-9])(?=.*[a-z]).+$";
    let names = |pattern: &str| json!({ "type": "object", "patternProperties": { pattern: true } });
    let hidden = json!({ "$ref": "#/x-parts/a" });
    for (what, schema, value) in [
        ("an ambiguous one", json!({ "pattern": ambiguous }), json!(long)),
        ("one where no keyword leads", hidden, json!(long)),
        (
            "many short texts",
            json!({ "items": { "pattern": ambiguous } }),
            json!(vec!["ab".repeat(31); 50_000]),
        ),
        ("one that looks ahead", json!({ "pattern": looking }), json!(long)),
        ("one of names", names(ambiguous), json!({ long.clone(): 1 })),
        ("one of names that looks ahead", names(looking), json!({ long.clone(): 1 })),
    ] {
        let schema = compile(json!({ "type": "object", "properties": { "x": schema },
            "x-parts": { "a": { "pattern": ambiguous } } }));
        let text = said(&schema, &json!({ "x": value }));
        assert!(text.contains("too large"), "{what}: {text}");
    }
    let address = r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,255}\.[A-Za-z]{2,24}$";
    for (schema, value) in [
        (json!({ "pattern": ambiguous }), json!("ab".repeat(2_600))),
        (json!({ "pattern": looking }), json!("s3cret-enough")),
        (json!({ "items": { "pattern": looking } }), json!(vec!["s3cret-enough"; 5_000])),
        (json!({ "items": { "pattern": address } }), json!(vec!["ada.lovelace@example.org"; 5_000])),
        (json!({ "pattern": "^[A-Za-z0-9+/]*={0,2}$" }), json!("QUJD".repeat(1 << 20))),
        (
            json!({ "anyOf": [{ "type": "string", "pattern": looking }, { "type": "object" }] }),
            json!({ "a": 1 }),
        ),
    ] {
        let object = compile(json!({ "type": "object", "properties": { "x": schema } }));
        assert!(object.accepts(&json!({ "x": value })), "{schema}");
    }
}

/// `x` as a field of an object, next to one whose pattern looks ahead.
fn beside_one_that_looks(field: Value) -> Value {
    json!({ "type": "object", "properties": { "x": field, "y": { "type": "string", "pattern": "^(?!-)" } } })
}

/// A text of so many `a` and `b` without any order.
fn random(bytes: usize) -> String {
    let mut dice = fastrand::Rng::with_seed(7);
    (0..bytes).map(|_| if dice.bool() { 'a' } else { 'b' }).collect()
}

#[test]
fn word_boundaries_take_no_longer_than_other_patterns() {
    let (same, mixed) = ("a".repeat(1 << 20), random(100_000));
    for (pattern, text) in [(r"\Ba*c", &same), (r"\B[ab]*a[ab]{60}c", &mixed), (r"\<a*c", &same)] {
        let schema = compile(json!({ "type": "object", "properties": { "x": { "pattern": pattern } } }));
        let begun = std::time::Instant::now();
        let text = said(&schema, &json!({ "x": text }));
        assert!(text.contains("expected") || text.contains("too large"), "{pattern}: {text}");
        assert!(begun.elapsed().as_secs() < 30, "{pattern}: {:?}", begun.elapsed());
    }
}

#[test]
fn patterns_that_are_tried_at_every_start_are_as_much_work_as_that() {
    let same = "a".repeat(1 << 20);
    for pattern in
        [r"\Ba*c", r"\b{start}a*c", "a*+c", "(?:a{2}+)*c", "a?{3}a*c", r"(?:\b){0}a*c", r"(?:x|\>)?a*c"]
    {
        let schema = compile(beside_one_that_looks(json!({ "pattern": pattern })));
        let text = said(&schema, &json!({ "x": same }));
        assert!(text.contains("too large"), "{pattern}: {text}");
    }
    // A pattern that is possessive is tried whatever stands next to it.
    let alone = compile(json!({ "type": "object", "properties": { "x": { "pattern": "a*+c" } } }));
    assert!(said(&alone, &json!({ "x": same })).contains("too large"));
    // Others take no longer for what stands next to them.
    let plain = compile(beside_one_that_looks(json!({ "pattern": "^a*$" })));
    assert!(plain.accepts(&json!({ "x": same, "y": "name" })) && !plain.accepts(&json!({ "y": "-name" })));
}

#[test]
fn patterns_that_look_around_are_as_long_as_they_are_written_out() {
    let (mixed, same) = (random(10_000), "a".repeat(2_000));
    for (what, pattern, text) in [
        ("ahead", "(?=x?)[ab]*a[ab]{5000}c", &mixed),
        ("within", "(?=[ab]*a[ab]{5000}c)x", &mixed),
        ("behind", "(?<!c)[ab]*a[ab]{5000}c", &mixed),
        ("back", r"(x?)[ab]*a[ab]{5000}c\1", &mixed),
        ("by name", r"(?<n>x?)(?=x?)[ab]*a[ab]{5000}c\k<n>", &mixed),
        ("at every place from every place", "(?=(?:a(?:[ab]*c)?(?=x?))*)x", &same),
        ("the same, hidden", r"(?=(?:(?:\b){0}a(?:[ab]*c)?)*)x", &same),
        ("nothing, often", "(?:(?=a?)(?=a?)){5000}x", &same),
        ("a boundary, often", r"(?=a)(?:\B\B){50000}x", &same),
        ("the same, deeper", "(?=(?:a(?!(?:a(?:[ab]*c)?(?=x?))*x))*)x", &same),
    ] {
        let schema = compile(json!({ "type": "object", "properties": { "x": { "pattern": pattern } } }));
        let text = said(&schema, &json!({ "x": text }));
        assert!(text.contains("too large"), "{what}: {text}");
    }
}

#[test]
fn a_pattern_is_measured_as_the_validator_reads_it() {
    // To us this would be one class, to the validator it is one and much behind it.
    let schema = json!({ "type": "object", "properties": { "x": { "pattern": "[[x][ab]*a[ab]{5000}c]" } } });
    let text = said(&compile(schema), &json!({ "x": random(1 << 20) }));
    assert!(text.contains("too large"), "{text}");
}

#[test]
fn what_a_pattern_cannot_be_measured_by_is_refused_where_it_stands() {
    for pattern in ["(?=a)(?>b)", r"(?=a)\G", r"(?=a)\g<0>", "(?=a)(?(1)b|c)"] {
        let text = refusal(json!({ "type": "object", "properties": { "x": { "pattern": pattern } } }));
        assert!(
            text.contains("/properties/x/pattern: ") && text.contains("cannot be told"),
            "{pattern}: {text}"
        );
        let names = json!({ "type": "object", "patternProperties": { pattern: true } });
        assert!(refusal(names).contains("cannot be told"), "{pattern}");
        // What only looks like one is none.
        assert_eq!(refusal(json!({ "type": "object", "default": { "pattern": pattern } })), "accepted");
    }
}

#[test]
fn a_match_without_end_is_given_up_once_and_not_in_every_way_it_might_have_ended() {
    // As many ways through it as there are subsets of the text's letters.
    let endless = "^(?:(?=a)a|a(?=a?))*[ab]*c$";
    let texts: Vec<_> = (0..3_000).map(|n| format!("{}{n}", "a".repeat(30))).collect();
    for schema in [json!({ "pattern": endless }), json!({ "not": { "pattern": endless } })] {
        let schema = json!({ "type": "object", "properties": { "x": { "items": schema } } });
        let begun = std::time::Instant::now();
        let text = said(&compile(schema), &json!({ "x": texts }));
        assert!(text.contains("too large"), "{text}");
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}

#[test]
fn ordinary_patterns_that_look_around_check_ordinary_values() {
    let host = r"^(?:(?!-)[A-Za-z0-9-]{1,63}(?<!-)\.)+[A-Za-z]{2,24}$";
    let password = r"^(?=.*[A-Z])(?=.*[a-z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,64}$";
    for (pattern, value) in [
        (host, json!(vec!["build-7.ci.example.org"; 500])),
        (password, json!(vec!["s3cret-Enough!".replace('-', "@"); 100])),
        ("^((?!DROP TABLE).)*$", json!(["all is well, and has been so for long. ".repeat(40)])),
        (r"^(?!\s*$).+", json!(["some text. ".repeat(400)])),
        (r"^(?!.*\.\.)[\w./-]+$", json!(vec!["src/schema/patterns.rs"; 5_000])),
        (r"^(['\x22]).*\1$", json!(["'quoted'", "\"quoted\""])),
        (r"^(?<q>a)(?=b).*\k<q>$", json!(["abba"])),
    ] {
        let schema = json!({ "type": "object", "properties": { "x": { "items": { "pattern": pattern } } } });
        let schema = compile(schema);
        if let Err(errors) = schema.validate(&json!({ "x": value })) {
            panic!("{pattern}: {errors:?}");
        }
    }
}

#[test]
fn errors_hold_little() {
    let text = "x".repeat(4 << 20);
    let any = |count: usize, one: Value| json!({ "type": "object", "properties": { "x": { "anyOf": vec![one; count] } } });
    let names: Vec<_> = (0..5_000).map(|n| format!("f{n}")).collect();
    for (what, schema, value) in [
        ("a copy for each alternative", any(100, json!({ "type": "integer" })), json!({ "x": text })),
        (
            "a copy for each missing field",
            any(1, json!({ "required": names })),
            json!({ "x": { "a": "x".repeat(1 << 16) } }),
        ),
        (
            "a copy for each name",
            any(1, json!({ "propertyNames": { "maxLength": 1 } })),
            json!({ "x": fields(3_000, |_| json!("x".repeat(100))) }),
        ),
        (
            "the way to each",
            json!({ "additionalProperties": { "items": { "type": "integer" } } }),
            json!({ "k".repeat(1 << 16): vec!["x"; 5_000] }),
        ),
        (
            "what is forbidden",
            json!({ "items": { "not": { "not": { "enum": ["x".repeat(1 << 16)] }, "type": "string" } } }),
            json!(vec!["x"; 5_000]),
        ),
    ] {
        let text = said(&compile(schema), &value);
        assert!(text.contains("too much could be wrong"), "{what}: {text}");
    }
    // What is wrong in an ordinary value is still said.
    let list =
        compile(json!({ "type": "object", "properties": { "list": { "items": { "type": "integer" } } } }));
    let mut numbers = vec![json!(7); 100_000];
    numbers.push(json!("x"));
    assert!(said(&list, &json!({ "list": numbers })).contains("/list/100000"));
    let either = any(
        3,
        json!({ "type": "object", "required": ["id"], "properties": { "text": { "type": "string" } } }),
    );
    assert!(said(&compile(either), &json!({ "x": { "text": "x".repeat(1 << 20) } })).contains("/x/id"));
}

#[test]
fn what_is_wrong_deep_below_alternatives_is_not_looked_for_at_each_of_them() {
    let link = |n: usize| match n {
        0 => json!({ "items": { "type": "integer" } }),
        _ => json!({ "anyOf": [refer(&format!("#/$defs/f{}", n - 1))] }),
    };
    for (links, items) in [(450, 2_000), (450, 1), (310, 1), (200, 2_000)] {
        let at_last = refer(&format!("#/$defs/f{links}"));
        let schema =
            json!({ "type": "object", "properties": { "x": at_last }, "$defs": fields(links + 1, link) });
        let text = said(&compile(schema), &json!({ "x": vec!["x"; items] }));
        assert!(text.contains("too much could be wrong"), "{links} {items}: {text}");
    }
    let schema =
        json!({ "type": "object", "properties": { "x": refer("#/$defs/f20") }, "$defs": fields(21, link) });
    assert!(said(&compile(schema), &json!({ "x": vec!["x"; 100] })).contains("expected integer"));
}

#[test]
fn no_more_defaults_are_looked_for_once_there_is_no_room() {
    let mut all = fields(9_000, |_| json!({ "default": "x" }));
    all.extend((0..300).map(|n| (format!("n{n}"), refer("#"))));
    let schema = compile(json!({ "type": "object", "properties": all }));
    let wide = |inner: Value| (0..300).map(|n| (format!("n{n}"), inner.clone())).collect::<Map<_, _>>();
    let mut value = Value::from(wide(wide(json!({})).into()));
    let begun = std::time::Instant::now();
    assert!(!schema.apply_defaults(&mut value));
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

#[test]
fn defaults_are_checked_where_there_are_too_many_to_check_at_once() {
    let field = |n: usize| {
        let default = if n == 1 { json!([1]) } else { json!(vec!["x"; 10]) };
        json!({ "items": refer("#/$defs/either"), "default": default })
    };
    let either = json!({ "anyOf": vec![json!({ "type": "string" }); 50] });
    let schema = json!({ "type": "object", "properties": fields(500, field), "$defs": { "either": either } });
    assert!(refusal(schema).contains("/properties/f1/default"));
}
