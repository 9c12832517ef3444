//! `query_context` over the whole store: mails, a calendar, tasks and contacts.

use helve_office::import::import_objects;
use serde_json::{Value, json};

use crate::Sizes;
use crate::made_up::{self, Dice, Words, person};
use crate::measure::{Times, timed_async};
use crate::world::World;

/// One way to ask.
type Case = (&'static str, fn(&mut Dice, &Words) -> Value);

const CASES: [Case; 7] = [
    ("who is somebody", |dice, _| {
        let name = person(dice.below(1_000)).name;
        json!({ "query": format!("Who is {}?", name.split(' ').next().unwrap_or_default()) })
    }),
    ("a name and a surname", |dice, _| json!({ "query": person(dice.below(1_000)).name })),
    ("an address", |dice, _| json!({ "query": person(dice.below(1_000)).address })),
    ("a frequent word", |dice, words| json!({ "query": words.at(20 + dice.below(100)) })),
    ("two rare words, of which no result has both", |dice, words| {
        let (one, other) = (words.at(3_000 + dice.below(20_000)), words.at(3_000 + dice.below(20_000)));
        json!({ "query": format!("what about {one} and {other}") })
    }),
    ("an event in a month", |dice, words| {
        let word = words.at(20 + dice.below(300));
        json!({ "query": word, "entityType": "event", "startDate": "2026-03-01", "endDate": "2026-03-31" })
    }),
    ("a task", |dice, words| json!({ "query": words.at(20 + dice.below(300)), "entityType": "task" })),
];

pub(crate) async fn measure_context(world: &World, sizes: Sizes, words: &Words) {
    let count = fill(world, sizes, words).await;
    let mut dice = Dice::new(2);
    let mut times: Vec<Times> = CASES.iter().map(|_| Times::default()).collect();
    for _ in 0..sizes.calls {
        for ((_, ask), times) in CASES.iter().zip(&mut times) {
            let (time, _) = world.call("query_context", ask(&mut dice, words)).await;
            times.add(time);
        }
    }
    println!("\nquery_context over {} mails and {count} events, tasks and contacts", sizes.mails);
    println!("{:<50} {:>9} {:>9} {:>9}", "ms", "p50", "p95", "CPU p95");
    let line = |name: &str, times: &Times| {
        let [p50, p95, cpu] = [times.within(0.5), times.within(0.95), times.cpu_within(0.95)];
        println!("{name:<50} {p50:>9.2} {p95:>9.2} {cpu:>9.2}");
    };
    let mut all = Times::default();
    for ((name, _), times) in CASES.iter().zip(times) {
        line(name, &times);
        all.take(times);
    }
    line("all of them (aim: 50 ms at p95)", &all);
}

/// Imports them as a person does. How many there are.
async fn fill(world: &World, sizes: Sizes, words: &Words) -> usize {
    let calendar =
        |parts: Vec<String>| format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{}END:VCALENDAR\r\n", parts.concat());
    let files = [
        calendar((0..sizes.series).map(|number| made_up::series(number, "", words)).collect()),
        calendar((0..sizes.events).map(|number| made_up::event(number, words)).collect()),
        calendar((0..sizes.events / 2).map(|number| made_up::task(number, words)).collect()),
        (0..sizes.events / 4).map(made_up::contact).collect(),
    ];
    let (time, count) = timed_async(async {
        let mut count = 0;
        for file in files {
            let imported = import_objects(&world.objects, file.into()).await.unwrap();
            assert_eq!(imported.skipped, 0, "{imported:?}");
            count += imported.events + imported.tasks + imported.contacts;
        }
        count
    })
    .await;
    println!("\n{count} events, tasks and contacts imported: {:.0} a second", count as f64 / time.wall_s());
    count
}
