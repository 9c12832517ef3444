//! A first sync compared with the same mails fetched over the same wire and not indexed.

use helve_office::account::MailStore as _;
use helve_testkit::OfficeServers;

use crate::measure::{Took, best, timed, timed_async};
use crate::raw_imap::RawImap;
use crate::world::World;
use crate::{Sizes, fixture};

pub(crate) async fn measure_sync(servers: &OfficeServers, sizes: Sizes) {
    // Dovecot numbers the mails and keeps what it was asked for, so that nobody pays for it who is measured.
    fetch(servers, sizes);
    let (mut bare, mut fetched, mut synced) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        bare.push(timed(|| fetch(servers, sizes)).0);
        let (time, count) = timed_async(pages(servers)).await;
        assert_eq!(count, sizes.synced);
        fetched.push(time);
        let world = World::new(fixture::account(servers, "bob")).await;
        let (time, done) = timed_async(world.sync()).await;
        assert_eq!(done.added, sizes.synced);
        synced.push(time);
    }
    let floor = best(&bare);
    println!("\n{} mails from Dovecot", sizes.synced);
    println!("{:<50} {:>12} {:>9} {:>12}", "", "mails/s", "× floor", "CPU µs/mail");
    line("the floor: one FETCH of all, thrown away", sizes, floor, floor);
    line("the client's pages, not indexed", sizes, best(&fetched), floor);
    line("first sync: fetched, read and indexed", sizes, best(&synced), floor);
}

fn line(name: &str, sizes: Sizes, took: Took, floor: Took) {
    let rate = sizes.synced as f64 / took.wall_s();
    let cpu_us = took.cpu_s() * 1e6 / sizes.synced as f64;
    println!("{name:<50} {rate:>12.0} {:>9.2} {cpu_us:>12.0}", took.wall_s() / floor.wall_s());
}

fn fetch(servers: &OfficeServers, sizes: Sizes) {
    let mut imap = RawImap::login(servers, "bob");
    imap.run("EXAMINE INBOX");
    let count = imap.run("UID FETCH 1:* (UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[])");
    assert_eq!(count, sizes.synced);
}

/// All pages of the inbox. How many mails they had.
async fn pages(servers: &OfficeServers) -> usize {
    let account = fixture::account(servers, "bob");
    let mut page = account.changes("INBOX", None).await.unwrap();
    let mut count = page.new.len();
    while page.more {
        page = account.changes("INBOX", Some(&page.state)).await.unwrap();
        count += page.new.len();
    }
    count
}
