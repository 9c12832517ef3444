//! Mails, events and people that nobody wrote: always the same for the same number.
//!
//! Words and people come as often as in real mail: a few all the time, most hardly ever (Zipf).

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

const WORDS: usize = 30_000;
const PEOPLE: usize = 3_000;
/// Mails of five years.
const YEARS_S: i64 = 5 * 365 * 86_400;
/// When the last mail came.
const LAST: i64 = 1_794_600_000;
/// Mails are spread over the years as if there were so many.
const SPREAD: usize = 110_000;

const FIRST: [&str; 40] = [
    "Sarah", "John", "Maria", "Ahmed", "Wei", "Anna", "Peter", "Laura", "Tom", "Julia", "Marc", "Nina",
    "Omar", "Ivy", "Paul", "Rosa", "Sven", "Tara", "Uwe", "Vera", "Will", "Yuki", "Zoe", "Adam", "Bea",
    "Carl", "Dora", "Emil", "Fay", "Gus", "Hana", "Igor", "Jane", "Kurt", "Lena", "Max", "Nora", "Otto",
    "Pia", "Quin",
];
const LAST_NAMES: [&str; 25] = [
    "Chen", "Berger", "Smith", "Novak", "Khan", "Rossi", "Meyer", "Silva", "Jones", "Dubois", "Olsen",
    "Kaya", "Ito", "Patel", "Moreau", "Weber", "Lopez", "Nowak", "Haas", "Brown", "Keller", "Sato", "Costa",
    "Vogel", "Young",
];
/// What mails are about: at these places among the words, the first the most frequent.
const TOPICS: [(usize, &str); 12] = [
    (4, "please"),
    (12, "meeting"),
    (30, "project"),
    (60, "budget"),
    (110, "invoice"),
    (200, "contract"),
    (400, "launch"),
    (900, "deadline"),
    (2_000, "warranty"),
    (5_000, "audit"),
    (12_000, "offsite"),
    (25_000, "tombola"),
];

/// A generator of numbers that needs nothing but a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: usize) -> Self {
        Self((seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.share() * end as f64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A place among so many, the first ones far more often than the last.
    fn rank(&mut self, of: usize) -> usize {
        ((of as f64 + 1.0).powf(self.share()) as usize).clamp(1, of) - 1
    }
}

/// All words that there are, the most frequent first.
pub(crate) struct Words(Vec<String>);

impl Words {
    pub(crate) fn new() -> Self {
        const SYLLABLES: [&str; 32] = [
            "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su", "ta",
            "ve", "wi", "xo", "yu", "za", "bre", "cli", "dro", "flu", "gra", "ple", "pri", "sto", "tru",
            "sha", "che",
        ];
        let word = |rank: usize| {
            if let Some((_, topic)) = TOPICS.iter().find(|(at, _)| *at == rank) {
                return (*topic).to_owned();
            }
            let syllables = [rank % 32, rank / 32 % 32, rank / 1024];
            let used = if rank < 1024 { &syllables[..2] } else { &syllables[..] };
            used.iter().map(|at| SYLLABLES[*at]).collect()
        };
        Self((0..WORDS).map(word).collect())
    }

    /// The word at a place: the lower, the more frequent.
    pub(crate) fn at(&self, rank: usize) -> &str {
        &self.0[rank]
    }

    fn some(&self, dice: &mut Dice, count: usize) -> String {
        let words: Vec<&str> = (0..count).map(|_| self.at(dice.rank(WORDS))).collect();
        words.join(" ")
    }
}

/// Somebody who writes.
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) address: String,
}

/// The person of a number: the lower, the more they write.
pub(crate) fn person(number: usize) -> Person {
    let (first, last) = (FIRST[number % 40], LAST_NAMES[number / 40 % 25]);
    let company = number / 1000;
    let address = format!("{}.{}@firm{company}.example", first.to_lowercase(), last.to_lowercase());
    Person { name: format!("{first} {last}"), address }
}

pub(crate) struct MadeUp {
    pub(crate) message: String,
    pub(crate) at: Timestamp,
    pub(crate) seen: bool,
}

/// When a mail was written; the numbers go with time.
pub(crate) fn written_at(number: usize) -> Timestamp {
    let age = (SPREAD.saturating_sub(number)) as i64 * (YEARS_S / SPREAD as i64);
    Timestamp::from_second(LAST - age).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The mail of a number: plain or with HTML as well, one in ten with a file, a good third of them replies.
pub(crate) fn mail(number: usize, words: &Words) -> MadeUp {
    let mut dice = Dice::new(number);
    let parent = (number > 300 && dice.below(10) < 4).then(|| number - 1 - dice.below(250));
    // A thread has the subject of its beginning: here of the mail that is answered.
    let about = words.some(&mut Dice::new(parent.unwrap_or(number) + 7_000_000), 4);
    let subject = if parent.is_some() { format!("Re: {about}") } else { about };
    let at = written_at(number);
    let mut message = String::with_capacity(4_096);
    let from = person(dice.rank(PEOPLE));
    let _ = write!(message, "From: {} <{}>\r\nTo: Alice <alice@example.test>", from.name, from.address);
    for _ in 0..dice.rank(6) {
        let other = person(dice.rank(PEOPLE));
        let _ = write!(message, ",\r\n {} <{}>", other.name, other.address);
    }
    let date = at.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S +0000");
    let _ =
        write!(message, "\r\nSubject: {subject}\r\nDate: {date}\r\nMessage-ID: <{number}@bench.example>\r\n");
    if let Some(parent) = parent {
        let _ = write!(message, "In-Reply-To: <{parent}@bench.example>\r\n");
        let _ = write!(message, "References: <{parent}@bench.example>\r\n");
    }
    message.push_str("MIME-Version: 1.0\r\n");
    body(&mut message, &mut dice, words);
    MadeUp { message, at, seen: !dice.one_in(40) }
}

fn body(message: &mut String, dice: &mut Dice, words: &Words) {
    let lines = 3 + dice.rank(60);
    let text: Vec<String> = (0..lines).map(|_| words.some(dice, 11)).collect();
    let (html, file) = (dice.one_in(2), dice.one_in(10));
    let plain = |message: &mut String| {
        let _ = write!(message, "Content-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n", text.join("\r\n"));
    };
    if !(html || file) {
        return plain(message);
    }
    let kind = if file { "mixed" } else { "alternative" };
    let _ = write!(message, "Content-Type: multipart/{kind}; boundary=\"=_b\"\r\n\r\n--=_b\r\n");
    plain(message);
    if html {
        let lines = text.join("</p>\r\n<p style=\"margin:0\">");
        let _ = write!(
            message,
            "--=_b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body><p>{lines}</p></body></html>\r\n"
        );
    }
    if file {
        let line = "JVBERi0xLjQKJcfsj6IKNSAwIG9iago8PC9MZW5ndGggNiAwIFIvRmlsdGVyIC9GbGF0ZURlY29kZT4+\r\n";
        let _ = write!(
            message,
            "--=_b\r\nContent-Type: application/pdf; name=\"scan.pdf\"\r\nContent-Transfer-Encoding: base64\r\n\
             Content-Disposition: attachment; filename=\"scan.pdf\"\r\n\r\n{}",
            line.repeat(60)
        );
    }
    message.push_str("--=_b--\r\n");
}

/// When the events that repeat end, where their calendar says so.
pub(crate) const YEAR_END: &str = ";UNTIL=20261231T235959Z";

/// An event that repeats from the beginning of 2026 on, each in its own way.
pub(crate) fn series(number: usize, until: &str, words: &Words) -> String {
    // Each with a first day that the rule picks, and in zones and hours in which calcard and we agree: not where a
    // clock skips or repeats an hour, and not where UNTIL is another day.
    const RULES: [(&str, &str); 10] = [
        ("05", "FREQ=WEEKLY;BYDAY=MO"),
        ("06", "FREQ=WEEKLY;BYDAY=TU,TH"),
        ("05", "FREQ=DAILY"),
        ("07", "FREQ=WEEKLY;INTERVAL=2;BYDAY=WE"),
        ("15", "FREQ=MONTHLY;BYMONTHDAY=15"),
        ("05", "FREQ=MONTHLY;BYDAY=1MO"),
        ("05", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ("30", "FREQ=MONTHLY;BYDAY=-1FR"),
        ("05", "FREQ=DAILY;INTERVAL=3"),
        ("05", "FREQ=YEARLY"),
    ];
    const ZONES: [&str; 4] = ["Europe/Berlin", "America/New_York", "Europe/Athens", "Europe/London"];
    let mut dice = Dice::new(number + 20_000_000);
    let ((day, rule), zone) = (RULES[number % 10], ZONES[dice.below(4)]);
    let (hour, minute) = (8 + dice.below(10), dice.below(4) * 15);
    let title = words.some(&mut dice, 3);
    let exception = if number % 10 == 2 {
        format!("EXDATE;TZID={zone}:20260317T{hour:02}{minute:02}00\r\n")
    } else {
        String::new()
    };
    let who = attendees(&mut dice);
    format!(
        "BEGIN:VEVENT\r\nUID:series-{number}@bench.example\r\nDTSTAMP:20251101T000000Z\r\nSUMMARY:{title}\r\n\
         DTSTART;TZID={zone}:202601{day}T{hour:02}{minute:02}00\r\nDURATION:PT45M\r\n\
         RRULE:{rule}{until}\r\n{exception}{who}END:VEVENT\r\n"
    )
}

fn attendees(dice: &mut Dice) -> String {
    (0..dice.rank(8)).fold(String::new(), |mut lines, _| {
        let who = person(dice.rank(PEOPLE));
        let _ = write!(lines, "ATTENDEE;CN={}:mailto:{}\r\n", who.name, who.address);
        lines
    })
}

/// An event that happens once.
pub(crate) fn event(number: usize, words: &Words) -> String {
    let mut dice = Dice::new(number + 30_000_000);
    let start = at(&mut dice);
    let (title, notes) = (words.some(&mut dice, 4), words.some(&mut dice, 20));
    let who = attendees(&mut dice);
    format!(
        "BEGIN:VEVENT\r\nUID:event-{number}@bench.example\r\nDTSTAMP:20251101T000000Z\r\nSUMMARY:{title}\r\n\
         DESCRIPTION:{notes}\r\nDTSTART:{start}\r\nDURATION:PT1H\r\n{who}END:VEVENT\r\n"
    )
}

/// Something to do.
pub(crate) fn task(number: usize, words: &Words) -> String {
    let mut dice = Dice::new(number + 40_000_000);
    let due = at(&mut dice);
    let title = words.some(&mut dice, 5);
    format!(
        "BEGIN:VTODO\r\nUID:task-{number}@bench.example\r\nDTSTAMP:20251101T000000Z\r\nSUMMARY:{title}\r\n\
         DUE:{due}\r\nEND:VTODO\r\n"
    )
}

/// The card of a person.
pub(crate) fn contact(number: usize) -> String {
    let Person { name, address } = person(number);
    format!(
        "BEGIN:VCARD\r\nVERSION:4.0\r\nUID:contact-{number}@bench.example\r\nFN:{name}\r\nEMAIL:{address}\r\n\
         ORG:Firm {}\r\nEND:VCARD\r\n",
        number / 1000
    )
}

/// A time in two years around the last mail.
fn at(dice: &mut Dice) -> String {
    let hours = dice.below(2 * 365 * 24) as i64 - 365 * 24;
    let at =
        Timestamp::from_second(LAST).unwrap_or(Timestamp::UNIX_EPOCH) + SignedDuration::from_hours(hours);
    at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M00Z").to_string()
}
