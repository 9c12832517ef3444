//! (e) lookup and search by size, (f) export to each provider's format.

use std::hint::black_box;

use helve::formats::Format;
use helve::{Layer, Registry, Tool};
use serde_json::json;

use crate::measure::{Cost, Watch, best, line};

const VERBS: [&str; 10] =
    ["list", "send", "create", "delete", "update", "search", "archive", "share", "export", "merge"];
const NOUNS: [&str; 10] =
    ["mail", "event", "issue", "contact", "invoice", "ticket", "repository", "page", "comment", "file"];

fn tool(number: usize) -> Tool {
    let (verb, noun) = (VERBS[number % 10], NOUNS[number / 10 % 10]);
    Tool::builder(format!("service-{}/{verb}-{noun}-{number}", number / 100))
        .description(format!("{verb}s one {noun} of the account number {number} and returns its identifier."))
        .when_to_use(format!("Use when the user wants to {verb} a {noun}."))
        .input_schema(
            json!({ "type": "object", "additionalProperties": false, "required": ["id"], "properties": {
            "id": { "type": "string", "description": "Which one." },
            "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 10 } } }),
        )
        .read_only()
        .handler(|_, _| async { Ok(json!({})) })
        .build()
        .unwrap()
}

fn registry(size: usize) -> Registry {
    let registry = Registry::with_limit(size);
    registry.register_many(Layer::Project, (0..size).map(tool)).unwrap();
    registry
}

pub(crate) fn measure_registry(scale: f64) {
    let mut floor: Option<Cost> = None;
    for size in [1_000, 10_000, 100_000] {
        let size = ((size as f64 * scale) as usize).max(100);
        let registry = registry(size);
        let names: Vec<String> =
            registry.list(&Default::default()).iter().map(|r| r.name().to_string()).collect();
        let lookups = (200_000.0 * scale) as usize;
        let mut lookup = |label: &str, among: usize| {
            let cost = best(5, || {
                let watch = Watch::start();
                for number in 0..lookups {
                    // A stride that visits names in no order the cache could guess.
                    black_box(registry.get(&names[number.wrapping_mul(7_919) % among]).unwrap());
                }
                watch.stop(lookups as u64)
            });
            line(&format!("(e) lookup among {size} tools, {label}"), cost, *floor.get_or_insert(cost));
        };
        lookup("the same hundred", 100);
        lookup("any of them", names.len());
        search(&registry, size);
        let before = std::time::Instant::now();
        registry.register(Layer::Org, tool(size + 1)).err();
        println!("    one more tool: {:?}", before.elapsed());
    }
    export(((1_000.0 * scale) as usize).max(50));
}

fn search(registry: &Registry, size: usize) {
    let first = std::time::Instant::now();
    black_box(registry.search("warm up", 10));
    let built = first.elapsed();
    let cost = best(5, || {
        let watch = Watch::start();
        for query in ["send a mail", "archive repository pages", "limit", "delete invoice 42"] {
            assert!(!black_box(registry.search(query, 10)).is_empty());
        }
        watch.stop(4)
    });
    line(&format!("(e) search among {size} tools"), cost, cost);
    println!("    index built once in {built:?}");
}

fn export(size: usize) {
    let registry = registry(size);
    for format in Format::ALL {
        let fresh = best(5, || {
            // A change makes the cached export stale.
            registry.replace(Layer::Project, tool(0)).unwrap();
            black_box(registry.list(&Default::default()));
            let watch = Watch::start();
            black_box(registry.export(format));
            watch.stop(1)
        });
        let cached = best(5, || {
            let watch = Watch::start();
            for _ in 0..1_000 {
                black_box(registry.export(format));
            }
            watch.stop(1_000)
        });
        line(&format!("(f) export {size} tools to {format}, after a change"), fresh, fresh);
        line(&format!("(f) export {size} tools to {format}, again"), cached, fresh);
    }
}
