//! What a call through Helve costs over a direct one, compared with a minimal rmcp proxy as the floor,
//! a process that only copies bytes, and FastMCP's proxy and the `mcp-proxy` crate as peers: the same load, the same echo tool, one run.
//!
//! The load is bytes first, so that a call is made of little else than what stands between; then rmcp's client, as
//! a program would have it.
//!
//! Both eras of the protocol are measured, since a call costs a server more where the request has to say
//! who asks. To a backend that knows it, Helve and rmcp's client speak the newer one whatever the client spoke.
//!
//! Every part is its own process, so that its processor time and memory can be read. Ways take
//! turns in rounds, so that a noisy machine is noisy for all. FastMCP is what
//! `scripts/setup-mcp.sh target/mcp-peers` installed; without it that line is left out and said so.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

use helve_benches as _;

mod load;
mod part;
mod roles;

use load::{Era, Figures, Load, measure_load};
use part::Part;

/// How many calls a round has, and how many rounds there are.
const ROUNDS: usize = 3;

fn main() {
    if let Some(role) = std::env::var_os("MCP_BENCH_ROLE") {
        roles::play(&role.into_string().unwrap());
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

/// A way from the load client to the tool.
struct Way {
    name: &'static str,
    url: String,
    /// What stands between.
    between: Option<Part>,
    /// How many calls make a round; slow ways have fewer.
    calls: usize,
    /// Whether it can be spoken to without a handshake.
    is_stateless: bool,
}

async fn measure() {
    // For reqwest, which comes without its own provider.
    let _ = helve_net::Client::new(helve_net::NetPolicy::default()).unwrap();
    let backend = Part::start("backend-http", &[]);
    let upstream = backend.url();
    let mut ways =
        vec![Way { name: "direct", url: upstream.clone(), between: None, calls: 20_000, is_stateless: true }];
    for (name, role, calls) in [
        ("bytes copied, unread", "copy", 20_000),
        ("helve, HTTP to HTTP", "helve-http", 20_000),
        ("helve, HTTP to stdio", "helve-stdio", 20_000),
        ("rmcp proxy, HTTP to HTTP", "proxy-http", 20_000),
        ("rmcp proxy, HTTP to stdio", "proxy-stdio", 20_000),
    ] {
        let part = Part::start(role, &[("MCP_BENCH_UPSTREAM", &upstream)]);
        ways.push(Way { name, url: part.url(), between: Some(part), calls, is_stateless: true });
    }
    match Part::mcp_proxy(&upstream) {
        Some(part) => {
            let (name, url) = ("mcp-proxy, HTTP to HTTP", part.url());
            ways.push(Way { name, url, between: Some(part), calls: 20_000, is_stateless: false });
        }
        None => {
            println!("mcp-proxy is left out: run cargo install --root target/mcp-peers mcp-proxy@0.6.0 first")
        }
    }
    match Part::fastmcp(&upstream) {
        Some(part) => {
            let (name, url) = ("FastMCP proxy", part.url());
            ways.push(Way { name, url, between: Some(part), calls: 100, is_stateless: false });
        }
        None => println!("FastMCP is left out: run scripts/setup-mcp.sh target/mcp-peers first"),
    }
    for load in [Load::Bytes(Era::Stateless), Load::Bytes(Era::Handshake), Load::Rmcp] {
        let needs_stateless = matches!(load, Load::Bytes(Era::Stateless));
        let ways: Vec<&Way> = ways.iter().filter(|way| !needs_stateless || way.is_stateless).collect();
        for way in &ways {
            measure_load(&way.url, load, 4, way.calls / 10).await;
        }
        println!("{}", load.shown());
        println!(
            "{:<28}{:>8}{:>12}{:>9}{:>9}{:>9}{:>10}{:>9}",
            "way", "callers", "calls/s", "ratio", "p50 µs", "p99 µs", "CPU µs", "RSS MB"
        );
        for callers in [1, 32] {
            compare(&ways, load, callers).await;
        }
    }
    drop(ways);
    many_servers().await;
}

/// Measures each way, and prints it next to the first one.
async fn compare(ways: &[&Way], load: Load, callers: usize) {
    let mut best: Vec<Option<Figures>> = ways.iter().map(|_| None).collect();
    for _ in 0..ROUNDS {
        for (way, best) in ways.iter().zip(&mut best) {
            let calls = if callers == 1 { way.calls / 2 } else { way.calls };
            let before = way.between.as_ref().map(Part::cpu_us);
            let mut figures = measure_load(&way.url, load, callers, calls).await;
            let after = way.between.as_ref().map(Part::cpu_us);
            figures.cpu_us = after.zip(before).map(|(after, before)| (after - before) / calls as f64);
            if best.as_ref().is_none_or(|best| figures.rate > best.rate) {
                *best = Some(figures);
            }
        }
    }
    let direct = best[0].as_ref().unwrap().rate;
    for (way, best) in ways.iter().zip(&best) {
        let best = best.as_ref().unwrap();
        let cpu = best.cpu_us.map_or_else(|| "-".to_owned(), |us| format!("{us:.0}"));
        let rss = way.between.as_ref().map_or_else(|| "-".to_owned(), |part| format!("{:.1}", part.rss_mb()));
        println!(
            "{:<28}{:>8}{:>12.0}{:>9.3}{:>9.0}{:>9.0}{:>10}{:>9}",
            way.name,
            callers,
            best.rate,
            best.rate / direct,
            best.p50_us,
            best.p99_us,
            cpu,
            rss
        );
    }
}

/// Ten servers connected: the memory of the gateway. Twenty: how long until all are listed.
async fn many_servers() {
    for count in [10, 20] {
        let part = Part::start("helve-many", &[("MCP_BENCH_SERVERS", &count.to_string())]);
        println!(
            "helve with {count} stdio servers: ready after {:.0} ms, RSS {:.1} MB",
            part.ready.as_secs_f64() * 1e3,
            part.rss_mb()
        );
    }
    let one = Part::start("helve-many", &[("MCP_BENCH_SERVERS", "1")]);
    println!(
        "helve with 1 stdio server: ready after {:.0} ms, RSS {:.1} MB",
        one.ready.as_secs_f64() * 1e3,
        one.rss_mb()
    );
}
