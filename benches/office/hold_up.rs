//! Whether a sync holds up calls of other tools: their times with a first sync going on, and without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use helve_testkit::OfficeServers;
use serde_json::{Value, json};

use crate::measure::Times;
use crate::world::World;
use crate::{Sizes, fixture};

/// How long calls are made in one round.
const ROUND: Duration = Duration::from_secs(4);
/// Between two calls: an agent does other things as well.
const PAUSE: Duration = Duration::from_millis(3);

/// The arguments of a call, by its number.
type Arguments = fn(usize) -> Value;

const CALLS: [(&str, Arguments); 3] = [
    ("remember", |number| json!({ "n": number })),
    ("search_emails", |number| json!({ "query": (["meeting", "budget", "contract"][number % 3]) })),
    ("create_task", |number| json!({ "title": format!("task {number}") })),
];

pub(crate) async fn measure_hold_up(servers: &OfficeServers, sizes: Sizes) {
    let quiet = Arc::new(World::new(fixture::account(servers, "bob")).await);
    quiet.sync().await;
    let round = if sizes.mails < 10_000 { ROUND / 20 } else { ROUND };
    println!("\ncalls while nothing else goes on, and during a first sync");
    println!("{:<30} {:>9} {:>9} {:>9} {:>9} {:>9}", "ms", "p50", "p99", "sync p50", "sync p99", "p99 ×");
    for (tool, arguments) in CALLS {
        let (mut alone, mut beside) = (Times::default(), Times::default());
        for _ in 0..sizes.rounds {
            alone.take(calls(&quiet, tool, arguments, round).await);
            beside.take(during_sync(servers, tool, arguments, round).await);
        }
        let [p50, p99] = [0.5, 0.99].map(|share| alone.within(share));
        let [sync50, sync99] = [0.5, 0.99].map(|share| beside.within(share));
        println!("{tool:<30} {p50:>9.2} {p99:>9.2} {sync50:>9.2} {sync99:>9.2} {:>9.1}", sync99 / p99);
        assert!(alone.count() > 0 && beside.count() > 0);
    }
}

async fn calls(world: &World, tool: &'static str, arguments: Arguments, round: Duration) -> Times {
    let mut times = Times::default();
    let begin = Instant::now();
    for number in 0.. {
        times.add(world.call(tool, arguments(number)).await.0);
        if begin.elapsed() > round {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    times
}

/// The same while the same office takes over mails, again from the beginning where it comes to the end.
async fn during_sync(
    servers: &OfficeServers,
    tool: &'static str,
    arguments: Arguments,
    round: Duration,
) -> Times {
    let mut times = Times::default();
    let begin = Instant::now();
    while begin.elapsed() < round {
        let world = Arc::new(World::new(fixture::account(servers, "bob")).await);
        let done = Arc::new(AtomicBool::new(false));
        let syncing = tokio::spawn({
            let (world, done) = (Arc::clone(&world), Arc::clone(&done));
            async move {
                world.sync().await;
                done.store(true, Ordering::Relaxed);
            }
        });
        for number in 0.. {
            let time = world.call(tool, arguments(number)).await.0;
            if done.load(Ordering::Relaxed) {
                break;
            }
            times.add(time);
            tokio::time::sleep(PAUSE).await;
        }
        syncing.await.unwrap();
    }
    times
}
