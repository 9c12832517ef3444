//! What the guarded client costs compared with plain reqwest: the same small answer from a server on
//! loopback, over connections that are kept. `cargo bench -p helve-benches --bench net`
//!
//! The ratio of rates is what counts, and it has the moods of the machine in it. The ratio of the client's own time on
//! a processor, kernel included, has not: the server runs on its own thread.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

use helve_benches as _;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helve_net::{Client, NetPolicy, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

const ROUNDS: usize = 15;
const ANSWER_BYTES: [usize; 2] = [64, 64 << 10];
const AT_ONCE: [usize; 3] = [1, 8, 64];

fn main() {
    // `cargo test --benches` runs this too; a smoke run is enough there.
    let requests = if std::env::args().any(|arg| arg == "--bench") { 4_000 } else { 64 };
    let tokio = Builder::new_current_thread().enable_all().build().unwrap();
    println!(
        "{:<34} {:>12} {:>12} {:>8} {:>16} {:>8}",
        "", "guarded/s", "reqwest/s", "ratio", "(rounds)", "CPU"
    );
    for bytes in ANSWER_BYTES {
        let address = serve(bytes);
        for host in ["127.0.0.1", "localhost"] {
            let url = format!("http://{host}:{}/", address.port());
            for at_once in AT_ONCE {
                compare(&tokio, &url, bytes, at_once, requests);
            }
        }
    }
}

/// Both in turn, round by round, so that the machine's moods meet both alike.
fn compare(tokio: &Runtime, url: &str, bytes: usize, at_once: usize, requests: usize) {
    let guarded = Client::new(NetPolicy::allowing(["127.0.0.1", "localhost"]).unwrap()).unwrap();
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    let fetch_guarded = async || {
        let response = guarded.fetch(Request::get(url).unwrap()).await.unwrap();
        assert_eq!(response.body.len(), bytes);
    };
    let fetch_plain = async || {
        let response = plain.get(url).send().await.unwrap();
        assert_eq!(response.bytes().await.unwrap().len(), bytes);
    };
    // Connections are made before the first round.
    rate(tokio, at_once, at_once * 4, &fetch_guarded);
    rate(tokio, at_once, at_once * 4, &fetch_plain);
    let (mut ours, mut theirs, mut ratios, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (our, their);
        if round % 2 == 0 {
            our = rate(tokio, at_once, requests, &fetch_guarded);
            their = rate(tokio, at_once, requests, &fetch_plain);
        } else {
            their = rate(tokio, at_once, requests, &fetch_plain);
            our = rate(tokio, at_once, requests, &fetch_guarded);
        }
        ours.push(our.rate);
        theirs.push(their.rate);
        ratios.push(our.rate / their.rate);
        cpu.push(their.cpu.as_secs_f64() / our.cpu.as_secs_f64());
    }
    let host = if url.contains("localhost") { "name" } else { "address" };
    let label = format!("{bytes} bytes by {host}, {at_once} at once");
    let ratio = middle(&mut ratios);
    let (low, high) = (ratios[0], ratios[ROUNDS - 1]);
    println!(
        "{label:<34} {:>12.0} {:>12.0} {ratio:>8.3} {:>16} {:>8.3}",
        middle(&mut ours),
        middle(&mut theirs),
        format!("({low:.2}–{high:.2})"),
        middle(&mut cpu),
    );
}

/// Sorts, and gives the one in the middle.
fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How a round went.
struct Round {
    /// Requests a second.
    rate: f64,
    /// The client's time on a processor.
    cpu: Duration,
}

/// The time on a processor of this thread, on which the client runs.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A round of requests, so many at once.
fn rate(tokio: &Runtime, at_once: usize, requests: usize, fetch: &impl AsyncFn()) -> Round {
    let each = requests.div_ceil(at_once);
    let (started, before) = (Instant::now(), cpu());
    tokio.block_on(async {
        let workers = (0..at_once).map(|_| async {
            for _ in 0..each {
                fetch().await;
            }
        });
        futures_util::future::join_all(workers).await;
    });
    Round { rate: (each * at_once) as f64 / started.elapsed().as_secs_f64(), cpu: cpu() - before }
}

/// A server on its own thread that answers whatever is asked.
fn serve(bytes: usize) -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let tokio = Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
            let answer: &'static [u8] = [head.as_bytes(), &vec![b'x'; bytes]].concat().leak();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer_all(stream, answer));
            }
        });
    });
    told.recv().unwrap()
}

/// A request is small and comes in one piece.
async fn answer_all(mut stream: TcpStream, answer: &[u8]) {
    stream.set_nodelay(true).unwrap();
    let mut request = [0; 4_096];
    while stream.read(&mut request).await.is_ok_and(|length| length > 0) {
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}
