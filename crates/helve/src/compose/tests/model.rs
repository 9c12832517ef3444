//! Random compositions of trivial tools, against an evaluator that is as simple as can be.
//!
//! The tools are `inc` (`{ n }` to `{ n: n + 1 }`), `twice`, and `odd`, which fails on odd numbers.

use std::sync::Arc;

use helve_core::{Layer, Parameter, ParameterType, Tool, ToolBuilder, ToolError};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::Composition;
use super::{FakeHost, host_on_record, host_with};

const TOOLS: [&str; 3] = ["inc", "twice", "odd"];

fn compute(tool: &str, n: i64) -> Result<i64, ()> {
    match tool {
        "inc" => Ok(n + 1),
        "twice" => Ok(n * 2),
        _ if n % 2 != 0 => Err(()),
        _ => Ok(n),
    }
}

fn number_tools() -> Vec<ToolBuilder> {
    let tool = |name: &'static str| {
        Tool::builder(name)
            .parameter(Parameter::required("n", ParameterType::Integer, "A number."))
            .read_only()
            .handler(move |arguments: Value, _| async move {
                let n = arguments["n"].as_i64().unwrap_or_default();
                // Some are slower than others, so that ends come in another order than starts.
                for _ in 0..n.rem_euclid(5) {
                    tokio::task::yield_now().await;
                }
                let result = compute(name, n).map_err(|()| ToolError::failed("odd"))?;
                Ok(json!({ "n": result }))
            })
    };
    TOOLS.map(tool).into()
}

/// A composition as the model sees it. All of them take `{ n }` and give `{ n }`.
#[derive(Debug, Clone)]
enum Shape {
    Tool(&'static str),
    /// Each step takes the previous one's number.
    Sequence(Vec<Shape>, bool),
    /// Each step takes the input; the sum of what succeeded.
    Parallel(Vec<Shape>, usize, bool),
    /// The first if the number is above the limit, else the second.
    Conditional(i64, Box<Shape>, Option<Box<Shape>>),
    /// Over `[n, n + 1, …]`; the sum of what succeeded.
    Map(Box<Shape>, usize, bool),
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = prop::sample::select(TOOLS.to_vec()).prop_map(Shape::Tool);
    leaf.prop_recursive(3, 16, 4, |inner| {
        let many = || prop::collection::vec(inner.clone(), 1..4);
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (many(), any::<bool>()).prop_map(|(steps, go_on)| Shape::Sequence(steps, go_on)),
            (many(), 1..4_usize, any::<bool>())
                .prop_map(|(steps, width, go_on)| Shape::Parallel(steps, width, go_on)),
            (-5..5_i64, boxed(), prop::option::of(boxed()))
                .prop_map(|(limit, a, b)| Shape::Conditional(limit, a, b)),
            (boxed(), 0..4_usize, any::<bool>())
                .prop_map(|(step, count, go_on)| Shape::Map(step, count, go_on)),
        ]
    })
}

/// What should come out.
fn model(shape: &Shape, n: i64) -> Result<i64, ()> {
    let sum = |results: Vec<Result<i64, ()>>, go_on: bool| {
        results.into_iter().filter(|one| !go_on || one.is_ok()).sum::<Result<i64, ()>>()
    };
    match shape {
        Shape::Tool(tool) => compute(tool, n),
        Shape::Sequence(steps, go_on) => {
            let mut current = n;
            for step in steps {
                match model(step, current) {
                    Ok(result) => current = result,
                    Err(()) if *go_on => {}
                    Err(()) => return Err(()),
                }
            }
            Ok(current)
        }
        Shape::Parallel(steps, _, go_on) => sum(steps.iter().map(|step| model(step, n)).collect(), *go_on),
        Shape::Conditional(limit, a, _) if n > *limit => model(a, n),
        Shape::Conditional(_, _, Some(b)) => model(b, n),
        Shape::Conditional(_, _, None) => Err(()),
        Shape::Map(step, count, go_on) => {
            let items = (0..i64::try_from(*count).unwrap()).map(|index| model(step, n + index));
            sum(items.collect(), *go_on)
        }
    }
}

/// Registers a shape and all within it; gives the name of its tool.
fn register(host: &FakeHost, shape: &Shape) -> String {
    let policy = |go_on: bool| if go_on { "continue" } else { "stop" };
    let steps = |shapes: &[Shape], arguments: &str| -> Vec<Value> {
        let step = |shape| json!({ "tool": register(host, shape), "arguments": { "n": arguments } });
        shapes.iter().map(step).collect()
    };
    let composition = match shape {
        Shape::Tool(tool) => return (*tool).to_owned(),
        Shape::Sequence(shapes, go_on) => {
            let mut steps = steps(shapes, "{{ previous.n if previous else input.n }}");
            steps[0]["arguments"]["n"] = json!("{{ input.n }}");
            json!({ "type": "sequence", "on_error": policy(*go_on), "steps": steps,
                "output": { "n": "{{ previous.n if previous else input.n }}" } })
        }
        Shape::Parallel(shapes, width, go_on) => {
            json!({ "type": "parallel", "on_error": policy(*go_on), "concurrency": width,
                "steps": steps(shapes, "{{ input.n }}"), "output": { "n": "{{ steps | items | map('last') | map(attribute='n') | sum }}" } })
        }
        Shape::Conditional(limit, a, b) => {
            let one = |shape: &Shape| steps(std::slice::from_ref(shape), "{{ input.n }}");
            let mut json = json!({ "type": "conditional", "output": "{{ previous }}",
                "branches": [{ "when": format!("input.n > {limit}"), "steps": one(a) }] });
            if let Some(b) = b {
                json["otherwise"] = json!(one(b));
            }
            json
        }
        Shape::Map(step, count, go_on) => {
            json!({ "type": "map", "tool": register(host, step), "concurrency": 2, "on_error": policy(*go_on),
                "over": format!("range(input.n, input.n + {count})"), "arguments": { "n": "{{ item }}" },
                "output": { "n": "{{ results | selectattr('n', 'defined') | map(attribute='n') | sum }}" } })
        }
    };
    let name = format!("made-{}", host.registry.len());
    let derived: Composition = serde_json::from_value(composition).unwrap();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let given = super::super::Given { input_schema: Some(schema), ..Default::default() };
    let derived = derived.derive(&name, given, &host.registry).unwrap();
    let tool = derived.complete(Tool::builder(&name).description("Is made by chance.")).build().unwrap();
    host.registry.register(Layer::Project, tool).unwrap();
    name
}

/// Calls a tool; gives the number, and every part with its arguments, by path.
async fn run_tool(host: &Arc<FakeHost>, name: &str, n: i64) -> (Result<i64, ()>, Map<String, Value>) {
    let tool = host.registry.tool(name).unwrap();
    let result = host.call(&tool, json!({ "n": n })).await;
    let calls = std::mem::take(&mut *host.calls.lock().unwrap()).into_iter();
    let calls = calls.map(|(path, tool, arguments)| (path, json!([tool, arguments]))).collect();
    (result.map(|result| result["n"].as_i64().unwrap()).map_err(|_| ()), calls)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_composition_does_what_the_model_says_and_the_same_again(shape in shapes(), n in -3..8_i64) {
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        executor.block_on(async {
            let host = host_with(number_tools());
            let name = register(&host, &shape);
            if let Shape::Tool(_) = shape {
                return Ok(());
            }
            let (result, calls) = run_tool(&host, &name, n).await;
            prop_assert_eq!(&result, &model(&shape, n));
            // From the record every part answers at once, so that a failure may stop more or fewer of
            // those next to it. What is called again is called with the same.
            let again = host_on_record(&host);
            let (second, calls_again) = run_tool(&again, &name, n).await;
            prop_assert_eq!(&result, &second);
            for (path, call) in &calls_again {
                prop_assert_eq!(calls.get(path).unwrap_or(call), call, "{}", path);
            }
            Ok(())
        })?;
    }
}
