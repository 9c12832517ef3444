//! `search_emails` over the whole store compared with the same question put to Dovecot.

use helve_testkit::OfficeServers;
use serde_json::{Value, json};

use crate::made_up::{Dice, Words, person, written_at};
use crate::measure::{Times, timed, timed_async};
use crate::raw_imap::RawImap;
use crate::world::World;
use crate::{Sizes, fixture};

/// The office with all mails of the server, by a sync.
pub(crate) async fn fill(servers: &OfficeServers, sizes: Sizes) -> World {
    let world = World::new(fixture::account(servers, "alice")).await;
    let (time, synced) = timed_async(world.sync()).await;
    assert_eq!(synced.added, sizes.mails);
    let rate = sizes.mails as f64 / time.wall_s();
    println!("\n{} mails synced into the store that is searched: {rate:.0} a second", sizes.mails);
    world
}

/// One way to ask, of both.
struct Case {
    name: &'static str,
    /// Dovecot has to read every mail for it.
    is_slow: bool,
    ask: fn(&mut Dice, &Words, Sizes) -> (Value, String),
}

const CASES: [Case; 8] = [
    Case {
        name: "a frequent word",
        is_slow: true,
        ask: |dice, words, _| by_words(&[words.at(20 + dice.below(100))]),
    },
    Case {
        name: "a rare word",
        is_slow: true,
        ask: |dice, words, _| by_words(&[words.at(4_000 + dice.below(20_000))]),
    },
    Case {
        name: "three words",
        is_slow: true,
        ask: |dice, words, _| {
            by_words(&[
                words.at(5 + dice.below(40)),
                words.at(50 + dice.below(200)),
                words.at(300 + dice.below(500)),
            ])
        },
    },
    Case {
        name: "from a name",
        is_slow: false,
        ask: |dice, _, _| {
            let name = person(dice.below(2_000)).name;
            let (first, last) = name.split_once(' ').unwrap_or_default();
            (json!({ "from": name }), format!("FROM {first} FROM {last}"))
        },
    },
    Case {
        name: "from an address",
        is_slow: false,
        ask: |dice, _, _| {
            let address = person(dice.below(2_000)).address;
            (json!({ "from": address }), format!("FROM {address}"))
        },
    },
    Case {
        name: "a month",
        is_slow: false,
        ask: |dice, _, sizes| {
            let (from, to) = month(dice, sizes);
            let (after, before) = (from.strftime("%F").to_string(), to.strftime("%F").to_string());
            let imap =
                format!("SENTSINCE {} SENTBEFORE {}", from.strftime("%-d-%b-%Y"), to.strftime("%-d-%b-%Y"));
            (json!({ "after": after, "before": before }), imap)
        },
    },
    Case { name: "unread", is_slow: false, ask: |_, _, _| (json!({ "unread": true }), "UNSEEN".to_owned()) },
    Case {
        name: "a word, a name, two years, unread",
        is_slow: true,
        ask: |dice, words, sizes| {
            let word = words.at(20 + dice.below(300));
            let name = person(dice.below(40)).name;
            let first = name.split(' ').next().unwrap_or_default();
            let from = written_at(sizes.mails).strftime("%Y").to_string().parse::<i32>().unwrap_or(2026) - 2;
            let arguments =
                json!({ "query": word, "from": first, "after": format!("{from}-01-01"), "unread": true });
            (arguments, format!("TEXT {word} FROM {first} SENTSINCE 1-Jan-{from} UNSEEN"))
        },
    },
];

fn by_words(words: &[&str]) -> (Value, String) {
    let imap: Vec<String> = words.iter().map(|word| format!("TEXT {word}")).collect();
    (json!({ "query": words.join(" ") }), imap.join(" "))
}

fn month(dice: &mut Dice, sizes: Sizes) -> (jiff::civil::Date, jiff::civil::Date) {
    let at = written_at(dice.below(sizes.mails)).to_zoned(jiff::tz::TimeZone::UTC).date();
    let from = at.first_of_month();
    (from, from.saturating_add(jiff::Span::new().months(1)))
}

pub(crate) async fn measure_search(world: &World, servers: &OfficeServers, sizes: Sizes, words: &Words) {
    let mut imap = RawImap::login(servers, "alice");
    imap.run("EXAMINE INBOX");
    // What Dovecot keeps of headers once it was asked for them, as it would have for a person who searches often.
    imap.run("UID SEARCH FROM nobody SENTBEFORE 1-Jan-1990");
    let mut dice = Dice::new(1);
    // Ours for every question, ours for those that Dovecot is asked too, and Dovecot's.
    let mut times: Vec<[Times; 3]> = CASES.iter().map(|_| Default::default()).collect();
    for turn in 0..sizes.calls {
        for (case, [ours, shared, theirs]) in CASES.iter().zip(&mut times) {
            let (arguments, command) = (case.ask)(&mut dice, words, sizes);
            let (time, answer) = world.call("search_emails", arguments).await;
            ours.add(time);
            let found = answer["emails"].as_array().map_or(0, Vec::len);
            if turn < if case.is_slow { sizes.rounds } else { sizes.rounds * 10 } {
                shared.add(time);
                let (time, count) = timed(|| imap.run(&format!("UID SEARCH {command}")));
                theirs.add(time);
                // Dovecot finds parts of words as well.
                assert!(count >= found, "{command}: {count} and {found}");
            }
        }
    }
    println!("\nsearch_emails over {} mails, {} calls each, beside IMAP SEARCH", sizes.mails, sizes.calls);
    println!(
        "(the newest 20 with their text; Dovecot without a full-text index, all numbers, asked a part of the questions)"
    );
    let columns = ["p50", "p95", "CPU p95", "Dovecot p50", "Dovecot p95", "× faster"];
    let [p50, p95, cpu, imap50, imap95, faster] = columns;
    println!("{:<36} {p50:>8} {p95:>8} {cpu:>8} {imap50:>12} {imap95:>12} {faster:>9}", "ms");
    let mut all = Times::default();
    for (case, [ours, shared, theirs]) in CASES.iter().zip(times) {
        let [p50, p95, cpu] = [ours.within(0.5), ours.within(0.95), ours.cpu_within(0.95)];
        let (imap50, imap95) = (theirs.within(0.5), theirs.within(0.95));
        let faster = imap50 / shared.within(0.5);
        let name = case.name;
        println!("{name:<36} {p50:>8.2} {p95:>8.2} {cpu:>8.2} {imap50:>12.1} {imap95:>12.1} {faster:>9.1}");
        all.take(ours);
    }
    let [p50, p95, cpu] = [all.within(0.5), all.within(0.95), all.cpu_within(0.95)];
    println!("{:<36} {p50:>8.2} {p95:>8.2} {cpu:>8.2}   (aim: 20 ms at p95)", "all of them");
}
