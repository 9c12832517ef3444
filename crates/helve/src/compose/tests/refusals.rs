use helve_core::Layer;
use serde_json::json;

use super::super::{Composition, Step, map, sequence};
use super::host;

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let host = host();
    let cases = [
        (
            json!({ "type": "sequence", "steps": [{ "tool": "ecko" }] }),
            "steps/0/tool: no tool named `ecko`; did you mean `echo`?",
        ),
        (json!({ "type": "sequence", "steps": [] }), "steps: there are none; give at least one"),
        (
            json!({ "type": "sequence", "steps": [{ "tool": "echo", "name": "a" }, { "tool": "echo", "name": "a" }] }),
            "steps/1/name: `a` is the name of another step; choose another",
        ),
        (
            json!({ "type": "sequence", "steps": [{ "tool": "echo", "name": "a-b" }] }),
            "steps/0/name: `a-b`: a name has letters",
        ),
        (
            json!({ "type": "sequence", "steps": [{ "tool": "echo", "arguments": { "x": "{{ inptu.x }}" } }] }),
            "steps/0/arguments: `inptu` is not known here; there are `input`, `context`",
        ),
        (
            json!({ "type": "sequence", "steps": [{ "tool": "echo" }, { "tool": "echo", "when": "steps.ecko" }] }),
            "steps/1/when: `steps.ecko`: no such step before this one; there are `echo`",
        ),
        (
            json!({ "type": "sequence", "steps": [{ "tool": "echo" }], "output": "{{ steps.gone.x }}" }),
            "output: `steps.gone`: no such step before this one; there are `echo`",
        ),
        (
            json!({ "type": "sequence", "on_error": "undo", "steps": [{ "tool": "echo", "on_error": "stop" }] }),
            "on_error: one says `undo` and another `stop`",
        ),
        (
            json!({ "type": "sequence", "steps": [{ "tool": "echo", "timeout_ms": 0 }] }),
            "steps/0/timeout_ms: zero would stop every call",
        ),
        (
            json!({ "type": "parallel", "steps": [{ "tool": "echo" }], "concurrency": 0 }),
            "concurrency: it must be from 1 to 64",
        ),
        (json!({ "type": "conditional", "branches": [] }), "branches: there must be 1 to 32, and not 0"),
        (
            json!({ "type": "conditional", "branches": [{ "when": "decision", "steps": [] }] }),
            "branches/0/when: `decision` is not known here",
        ),
        (
            json!({ "type": "conditional", "branches": [{ "name": "a", "when": "true", "steps": [] },
                { "name": "a", "when": "true", "steps": [{ "tool": "nope" }] }] }),
            "branches/1/name: `a` is the name of another branch",
        ),
        (json!({ "type": "map", "tool": "echo", "over": "item.x" }), "over: `item` is not known here"),
        (
            json!({ "type": "map", "tool": "echo", "over": "input.x", "as": "input" }),
            "as: `input` is the name of",
        ),
        (json!({ "type": "map", "tool": "nope", "over": "input.x" }), "tool: no tool named `nope`"),
    ];
    for (composition, expected) in cases {
        let refusal = host.refusal("made", composition);
        assert!(refusal.contains(expected), "{refusal}\ndoes not say\n{expected}");
    }
}

#[test]
fn everything_wrong_is_said_at_once() {
    let host = host();
    let error = sequence("made")
        .description("d")
        .step(Step::of("nope").arguments(json!({ "x": "{{ input." })).when("a +"))
        .step(Step::call("1", "echo"))
        .build(&host.registry)
        .unwrap_err();
    assert_eq!(error.problems.len(), 4, "{error}");
}

#[test]
fn unknown_keys_and_broken_expressions_are_refused_on_reading() {
    let read = |json| serde_json::from_value::<Composition>(json).unwrap_err().to_string();
    let error = read(json!({ "type": "sequence", "steps": [], "stepz": 1 }));
    assert!(error.contains("stepz"), "{error}");
    let error = read(json!({ "type": "sequence", "steps": [{ "tool": "a", "argument": {} }] }));
    assert!(error.contains("argument"), "{error}");
    let error = read(json!({ "type": "map", "tool": "a", "over": "input." }));
    assert!(error.contains("input."), "{error}");
}

#[test]
fn a_tool_that_would_call_itself_is_refused_with_the_chain() {
    let host = host();
    let refusal = host.refusal("me", json!({ "type": "sequence", "steps": [{ "tool": "me" }] }));
    assert_eq!(refusal, "tool `me` is refused: : it would call itself: me → me");
    // `a` is a plain tool first, `b` calls it, and then `a` shall be made of `b`.
    let plain = |name: &str| {
        let tool = helve_core::Tool::builder(name).description("d").handler(|_, _| async { Ok(json!(1)) });
        tool.build().unwrap()
    };
    host.registry.register(Layer::BuiltIn, plain("a")).unwrap();
    host.registered(sequence("b").step(Step::of("a")));
    host.registered(sequence("c").step(Step::of("b")));
    let refusal =
        host.refusal("a", json!({ "type": "sequence", "steps": [{ "tool": "echo" }, { "tool": "c" }] }));
    assert!(refusal.contains("it would call itself: a → c → b → a"), "{refusal}");
}

#[test]
fn depth_has_a_limit_and_the_chain_is_named() {
    let host = host();
    host.registered(sequence("d1").step(Step::of("echo")));
    for level in 2..=8 {
        host.registered(sequence(format!("d{level}")).step(Step::of(format!("d{}", level - 1))));
    }
    let refusal =
        host.refusal("d9", json!({ "type": "sequence", "steps": [{ "tool": "d1" }, { "tool": "d8" }] }));
    assert!(refusal.contains("deeper than 8: d9 → d8 → d7 → d6 → d5 → d4 → d3 → d2 → d1"), "{refusal}");
}

#[test]
fn many_ways_to_one_tool_are_walked_once() {
    let host = host();
    host.registered(sequence("w1").step(Step::of("echo")));
    for level in 2..=8 {
        let inner = format!("w{}", level - 1);
        let steps = (0..60).map(|_| Step::of(&inner));
        host.registered(steps.fold(sequence(format!("w{level}")), |tool, step| tool.step(step)));
    }
    assert!(host.registry.has("w8"));
}

#[test]
fn a_step_of_the_same_tool_gets_a_number() {
    let host = host();
    let composition = json!({ "type": "sequence", "steps": [
        { "tool": "fail-softly" }, { "tool": "fail-softly" }, { "tool": "echo", "name": "fail_softly_2" },
        { "tool": "echo", "when": "steps.nothing" } ] });
    let refusal = host.refusal("made", composition);
    assert!(refusal.contains("there are `fail_softly`, `fail_softly_3`, `fail_softly_2`"), "{refusal}");
}

#[test]
fn a_map_over_itself_is_refused() {
    let host = host();
    let error = map("m", "m", "input.x").description("d").build(&host.registry).unwrap_err();
    assert!(error.to_string().contains("m → m"), "{error}");
}
