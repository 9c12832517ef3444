//! Small schemas that are made to take for ever, through all that looks at a schema: registering, exports,
//! calls that fit and calls that do not, warnings, search, compositions. Each ends soon, and so does the
//! next one.

use std::sync::mpsc;
use std::time::Duration;

use helve::formats::{ExportOptions, Format, Strictness, drop_absent, export_one, strict_refusal};
use helve::{Schema, Tool, ToolBuilder};
use serde_json::{Map, Value, json};

use crate::support::{Bench, code};

/// Generous: what these schemas are made for takes hours, and the machines are noisy.
const SOON: Duration = Duration::from_secs(120);

/// A schema, arguments that do not fit it, and some that do.
struct Nasty {
    what: &'static str,
    schema: Value,
    wrong: Value,
    right: Value,
}

fn nasty(what: &'static str, schema: Value, wrong: Value, right: Value) -> Nasty {
    Nasty { what, schema, wrong, right }
}

/// Fields `a0`, `a1` and so on.
fn fields(count: usize, field: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..count).map(|n| (format!("a{n}"), field(n))).collect()
}

fn many_references() -> Vec<Nasty> {
    let mut itself = fields(30, |_| json!({ "$ref": "#" }));
    itself.insert("n".to_owned(), json!({ "default": 1, "type": "integer" }));
    let others: Map<_, _> = (0..8)
        .map(|n| {
            let mut all = fields(4, |n| json!({ "$ref": format!("#/$defs/d{n}") }));
            all.insert("n".to_owned(), json!({ "default": n, "type": "integer" }));
            (format!("d{n}"), json!({ "type": "object", "properties": all }))
        })
        .collect();
    let union = json!({ "anyOf": [{ "$ref": "#" }, { "type": "string" }] });
    let names: Vec<_> = (0..3_000).map(|n| format!("a{n}")).collect();
    vec![
        nasty(
            "thirty fields like the whole",
            json!({ "type": "object", "properties": itself }),
            json!({ "a0": { "a1": { "n": "x" } } }),
            json!({ "a0": { "a1": {} } }),
        ),
        nasty(
            "eight schemas of which each refers to four",
            json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/d0" } }, "$defs": others }),
            json!({ "x": { "a1": { "a2": 7 } } }),
            json!({ "x": { "a1": { "a2": {} } } }),
        ),
        nasty(
            "three thousand required unions",
            json!({ "type": "object", "properties": fields(3_000, |_| union.clone()), "required": names }),
            json!({ "a0": 7 }),
            fields(3_000, |_| json!("x")).into(),
        ),
    ]
}

fn wide() -> Vec<Nasty> {
    let alternatives: Vec<_> = (0..100).map(|n| json!({ "$ref": format!("#/$defs/d{n}") })).collect();
    let open: Map<_, _> = (0..100)
        .map(|n| {
            (format!("d{n}"), json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/any" } }))
        })
        .chain([
            ("any".to_owned(), json!({ "anyOf": [{ "type": "integer" }, { "$ref": "#/$defs/all" }] })),
            ("all".to_owned(), json!({ "anyOf": alternatives })),
        ])
        .collect();
    let mut table = fields(5_000, |_| json!({ "type": "string" }));
    table.insert("rows".to_owned(), json!({ "type": "array", "items": { "$ref": "#" } }));
    let patterns: Map<_, _> = (0..1_000).map(|n| (format!("^a{n}"), json!({ "$ref": "#" }))).collect();
    let conditions: Vec<_> = (0..100)
        .map(|n| {
            json!({ "if": { "required": [format!("a{n}")] }, "then": { "properties": { "x": { "$ref": "#" } } },
                "else": { "properties": { "y": { "$ref": "#" } } } })
        })
        .collect();
    vec![
        nasty(
            "a hundred open alternatives, and a secret",
            json!({ "type": "object", "properties": {
                "key": { "type": "string", "writeOnly": true }, "x": { "$ref": "#/$defs/all" } }, "$defs": open }),
            json!({ "x": fields(500, |n| if n == 499 { json!("x") } else { json!(5.0) }) }),
            json!({ "x": fields(1, |_| json!(5.0)) }),
        ),
        nasty(
            "a wide table of rows like itself",
            json!({ "type": "object", "properties": table, "additionalProperties": false }),
            json!({ "rows": vec![json!({ "b": 1 }); 20_000] }),
            json!({ "rows": vec![json!({ "a1": "x" }); 500] }),
        ),
        nasty(
            "a thousand patterns",
            json!({ "type": "object", "patternProperties": patterns, "required": ["b"], "properties": { "b": true } }),
            fields(200, |n| json!(n)).into(),
            json!({ "b": 5.0 }),
        ),
        nasty(
            "a hundred conditions",
            json!({ "type": "object", "allOf": conditions, "required": ["b"] }),
            json!({ "x": { "y": { "x": { "y": {} } } } }),
            json!({ "b": 1 }),
        ),
        nasty(
            "twenty thousand unknown fields",
            json!({ "type": "object", "additionalProperties": false, "properties": fields(5_000, |_| json!({ "type": "string" })) }),
            (0..20_000).map(|n| (format!("b{n}"), json!(n))).collect::<Map<_, _>>().into(),
            json!({ "a0": "x" }),
        ),
    ]
}

fn towers() -> Vec<Nasty> {
    let nest =
        |levels: usize, bottom: Value| (0..levels).fold(bottom, |inner, _| json!({ "allOf": [inner] }));
    let doubling: Map<_, _> = (0..13)
        .map(|n| {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            (
                format!("d{n}"),
                json!({ "type": "object", "properties": { "x": next, "y": next, "n": { "default": n } } }),
            )
        })
        .chain([("d13".to_owned(), json!({ "type": "object" }))])
        .collect();
    let chain = |length: usize, end: Value| -> Map<_, _> {
        let link = |n: usize| json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        (0..length).map(|n| (format!("d{n}"), link(n))).chain([(format!("d{length}"), end)]).collect()
    };
    let deep = |levels: usize, bottom: Value| (0..levels).fold(bottom, |inner, _| json!({ "x": inner }));
    vec![
        nasty(
            "a tower of allOf",
            json!({ "type": "object", "properties": { "x": nest(40, json!({ "type": "object", "$ref": "#" })) } }),
            deep(60, json!(7)),
            deep(20, json!({})),
        ),
        nasty(
            "definitions that double",
            json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/d0" } }, "$defs": doubling }),
            deep(10, json!(7)),
            deep(10, json!({})),
        ),
        nasty(
            "a long chain of references",
            json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/d0" } },
                "$defs": chain(20_000, json!({ "type": "string" })) }),
            json!({ "x": 7 }),
            json!({ "x": "y" }),
        ),
        nasty(
            "a chain that is just short enough",
            json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/d0" } },
                "$defs": chain(990, json!({ "type": "string" })) }),
            json!({ "x": [1] }),
            json!({ "x": "y" }),
        ),
        nasty(
            "a chain of references at every level",
            json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/d0" } },
                "$defs": chain(60, json!({ "type": "object", "$ref": "#" })) }),
            deep(60, json!(7)),
            deep(15, json!({})),
        ),
        nasty(
            "unevaluated fields at every level",
            json!({ "type": "object", "anyOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/b" }],
                "unevaluatedProperties": { "$ref": "#" }, "$defs": {
                    "a": { "properties": { "x": { "$ref": "#" } } }, "b": { "properties": { "y": { "$ref": "#" } } } } }),
            deep(30, json!(7)),
            json!({ "x": { "y": {} } }),
        ),
    ]
}

/// Schemas that are found where one does not look for them.
fn hidden() -> Vec<Nasty> {
    let refer = |at: &str| json!({ "$ref": at });
    let chain: Map<_, _> = (0..=900)
        .map(|n| {
            (
                format!("d{n}"),
                if n == 900 { json!({ "type": "string" }) } else { refer(&format!("#/own/d{}", n + 1)) },
            )
        })
        .collect();
    let asked = |n: usize| match n {
        12 => json!({ "required": ["y"] }),
        _ => {
            let next = refer(&format!("#/$defs/a{}", n + 1));
            json!({ "dependencies": { "x": { "allOf": [next, next] } } })
        }
    };
    let tower = (0..45).fold(
        json!({ "properties": { "x": true } }),
        |inner, _| json!({ "type": "object", "anyOf": [inner], "unevaluatedProperties": false }),
    );
    let circle = json!({
        "a": { "type": "object", "properties": { "x": refer("#/own/b") } },
        "b": { "type": "object", "properties": { "x": { "anyOf": [refer("#/own/a"), refer("#/own/a")] } } } });
    let deep = |levels: usize, bottom: Value| (0..levels).fold(bottom, |inner, _| json!({ "x": inner }));
    vec![
        nasty(
            "a chain where no keyword leads",
            json!({ "type": "object", "properties": { "x": refer("#/own/d0") }, "own": chain }),
            json!({ "x": [1] }),
            json!({ "x": "y" }),
        ),
        nasty(
            "a circle where no keyword leads",
            json!({ "type": "object", "properties": { "x": refer("#/own/a") }, "own": circle }),
            deep(60, json!(7)),
            deep(6, json!({})),
        ),
        nasty(
            "old dependencies that double",
            json!({ "type": "object", "$ref": "#/$defs/a0", "$defs": fields(13, asked) }),
            json!({ "x": 1 }),
            json!({ "x": 1, "y": 1 }),
        ),
        nasty("a tower that asks what nobody looked at", tower, json!({ "y": 1 }), json!({ "x": 1 })),
    ]
}

fn names() -> Vec<Nasty> {
    let mut anchored = fields(8_000, |_| json!({ "$dynamicRef": "#end" }));
    anchored.insert("z".to_owned(), json!({ "$ref": "#end" }));
    anchored.insert("list".to_owned(), json!({ "type": "array", "items": { "$ref": "#/$defs/item" } }));
    let long = "n".repeat(200_000);
    vec![
        nasty(
            "eight thousand references to an anchor at the end",
            json!({ "type": "object", "properties": anchored, "$defs": {
                "item": { "anyOf": [{ "$dynamicRef": "#end" }, { "type": "object", "properties": { "x": { "$ref": "#/$defs/item" } } }] },
                "last": { "$dynamicAnchor": "end", "type": "string" } } }),
            json!({ "list": vec![json!(7); 20_000] }),
            json!({ "list": vec![json!("x"); 20_000] }),
        ),
        nasty(
            "a reference with a very long name",
            json!({ "type": "object", "properties": { "list": { "type": "array", "items": { "$ref": format!("#/$defs/{long}") } } },
                "$defs": { long: { "anyOf": [{ "type": "string" }, { "$ref": "#" }] } } }),
            json!({ "list": vec![json!(7); 20_000] }),
            json!({ "list": vec![json!("x"); 20_000] }),
        ),
    ]
}

/// Runs the work on a thread with the stack that the runtime's threads have.
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, end) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    end.recv_timeout(SOON).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn tool(schema: &Value) -> ToolBuilder {
    Tool::builder("nasty")
        .description("Has a nasty schema, and does nothing with what it gets.")
        .input_schema(schema.clone())
        .handler(|_, _| async { Ok(json!(null)) })
}

fn through_everything(case: Nasty) -> Result<(), String> {
    let built = tool(&case.schema).build().map_err(|refused| refused.to_string())?;
    built.warnings();
    for format in Format::ALL {
        strict_refusal(format, &case.schema);
        for strictness in [Strictness::Off, Strictness::Usual, Strictness::WhereAllowed] {
            let options = ExportOptions { strictness, ..ExportOptions::default() };
            assert!(export_one(&built, format, &options).is_object());
        }
    }
    drop_absent(&case.schema, &mut case.wrong.clone());
    let schema = Schema::compile(case.schema.clone()).unwrap();
    for pointer in ["", "/x", "/x/x/x/x", "/a0/a1/a2/a3", "/list/0/x/0", "/rows/0/rows/0/rows"] {
        schema.at(pointer);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bench = Bench::new([tool(&case.schema)]);
        assert_eq!(bench.runtime.registry().search("nasty a1 x", 5).len(), 1);
        let composed = helve::compose::sequence("both")
            .description("Calls it twice.")
            .step(helve::compose::Step::of("nasty"))
            .step(helve::compose::Step::of("nasty"))
            .build(bench.runtime.registry());
        drop(composed);
        let refused = bench.call("nasty", case.wrong).await;
        assert_eq!(code(&refused), "validation_failed", "{}", case.what);
        let message = refused.error().unwrap().message();
        assert!(message.len() < 4_000, "{}: {} bytes of message", case.what, message.len());
        let fits = bench.call("nasty", case.right).await;
        assert!(fits.error().is_none(), "{}: {:?}", case.what, fits.error());
    });
    Ok(())
}

/// Every schema either goes through, or is refused at registration with these words.
fn check(cases: Vec<Nasty>, refused: &[(&str, &str)]) {
    for case in cases {
        let what = case.what;
        let ended = soon(what, move || through_everything(case));
        match (ended, refused.iter().find(|(name, _)| *name == what)) {
            (Ok(()), None) => {}
            (Err(message), Some((_, words))) => assert!(message.contains(words), "{what}: {message:.300}"),
            (ended, _) => panic!("{what}: {ended:.300?}"),
        }
    }
}

#[test]
fn references_that_multiply_end_soon() {
    check(many_references(), &[]);
}

#[test]
fn wide_schemas_end_soon() {
    check(wide(), &[]);
}

#[test]
fn towers_end_soon() {
    check(towers(), &[("a long chain of references", "one after the other")]);
}

#[test]
fn hidden_schemas_end_soon() {
    check(hidden(), &[("a tower that asks what nobody looked at", "parts")]);
}

#[test]
fn references_that_are_hard_to_follow_end_soon() {
    check(names(), &[("a reference with a very long name", "longer than")]);
}
