//! What the office pack costs. `cargo bench -p helve-benches --bench office`
//!
//! Each figure stands next to its comparison, measured in the same run and in turns: Dovecot's own search,
//! calcard's expansion, a fetch without an index. The servers are needed: `scripts/setup-office.sh target/office-servers` installs them.
//!
//! `HELVE_BENCH_MAILS` says how many mails the store has (100,000); everything else goes with it.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

use helve_benches as _;

mod context;
mod expand;
mod fixture;
mod hold_up;
mod made_up;
mod measure;
mod raw_imap;
mod search;
mod sync;
mod world;

use helve_testkit::OfficeServers;

/// How much of everything there is.
#[derive(Clone, Copy)]
struct Sizes {
    /// Mails that are searched.
    mails: usize,
    /// Mails of the first sync that is measured.
    synced: usize,
    /// Events that repeat, to be expanded.
    series: usize,
    /// Events that do not, in the calendar that `query_context` looks into.
    events: usize,
    /// Calls of each kind.
    calls: usize,
    /// How often what takes long is repeated.
    rounds: usize,
}

impl Sizes {
    fn read() -> Self {
        // `cargo test --benches` runs this too; a smoke run is enough there.
        let is_real = std::env::args().any(|arg| arg == "--bench");
        let given = std::env::var("HELVE_BENCH_MAILS").ok().and_then(|given| given.parse().ok());
        let mails = given.unwrap_or(if is_real { 100_000 } else { 300 });
        Self {
            mails,
            synced: mails.div_ceil(10),
            series: 1_000.min(mails),
            events: (mails / 50).max(10),
            calls: (mails / 400).clamp(5, 250),
            rounds: if mails >= 10_000 { 3 } else { 1 },
        }
    }
}

fn main() {
    let sizes = Sizes::read();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Needs neither servers nor a store.
    expand::measure_expand(sizes);
    let servers = OfficeServers::start();
    let words = made_up::Words::new();
    fixture::deliver(&servers, "alice", 0..sizes.mails, &words);
    // Other mails than those that are searched.
    fixture::deliver(&servers, "bob", sizes.mails..sizes.mails + sizes.synced, &words);
    tokio.block_on(async {
        sync::measure_sync(&servers, sizes).await;
        hold_up::measure_hold_up(&servers, sizes).await;
        let world = search::fill(&servers, sizes).await;
        search::measure_search(&world, &servers, sizes, &words).await;
        context::measure_context(&world, sizes, &words).await;
    });
}
