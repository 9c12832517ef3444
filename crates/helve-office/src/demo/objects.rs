//! The events, tasks and contacts of the demo.

/// When an event is, in days from today.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// At a local time of a zone, for so many minutes.
    At(i64, (i8, i8), &'static str, i64),
    /// All day, for so many days.
    Days(i64, i64),
}

/// An event of the demo, with days counted from today.
pub(super) struct DemoEvent {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) when: When,
    /// A recurrence rule.
    pub(super) rule: Option<&'static str>,
    pub(super) place: Option<&'static str>,
    /// Who is invited, besides the person.
    pub(super) with: &'static [(&'static str, &'static str)],
    /// More lines of the component.
    pub(super) more: &'static [&'static str],
}

const SARAH: (&str, &str) = ("Sarah Chen", "sarah.chen@acme.example");
const TOM: (&str, &str) = ("Tom Okafor", "tom.okafor@acme.example");
const JONAS: (&str, &str) = ("Jonas Weber", "jonas.weber@nordwind.example");
const YUKI: (&str, &str) = ("田中 由紀", "yuki.tanaka@sakura.example");
const LAYLA: (&str, &str) = ("ليلى حداد", "layla.haddad@cedar.example");

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";
const TOKYO: &str = "Asia/Tokyo";
const BEIRUT: &str = "Asia/Beirut";

const fn event(id: &'static str, title: &'static str, when: When) -> DemoEvent {
    DemoEvent { id, title, when, rule: None, place: None, with: &[], more: &[] }
}

pub(super) const EVENTS: &[DemoEvent] = &[
    DemoEvent {
        rule: Some("FREQ=WEEKLY"),
        with: &[SARAH, TOM],
        place: Some("https://meet.acme.example/q1"),
        ..event("acme-weekly", "Acme: weekly call", When::At(2, (15, 0), BERLIN, 45))
    },
    DemoEvent {
        with: &[SARAH],
        place: Some("Acme, Harbor Street 12"),
        ..event("acme-visit", "Visit at Acme", When::At(6, (10, 0), NEW_YORK, 180))
    },
    DemoEvent {
        with: &[TOM, SARAH],
        ..event("contract", "Contract: last open points", When::At(1, (16, 30), BERLIN, 60))
    },
    DemoEvent {
        rule: Some("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ..event("standup", "Stand-up", When::At(-14, (9, 15), BERLIN, 15))
    },
    DemoEvent {
        with: &[YUKI], ..event("tokyo", "打ち合わせ: サクラ商事", When::At(9, (10, 0), TOKYO, 60))
    },
    DemoEvent {
        rule: Some("FREQ=MONTHLY;COUNT=6"),
        with: &[YUKI],
        ..event("tokyo-monthly", "Sakura: monthly review", When::At(12, (9, 0), TOKYO, 30))
    },
    DemoEvent {
        with: &[LAYLA], ..event("cedar", "اجتماع مع ليلى", When::At(4, (11, 0), BEIRUT, 30))
    },
    DemoEvent {
        with: &[JONAS],
        place: Some("Lübeck"),
        ..event("training", "Schulung Nordwind, Vorgespräch", When::At(3, (13, 0), BERLIN, 60))
    },
    event("dentist", "Dentist", When::At(5, (8, 0), BERLIN, 45)),
    DemoEvent { more: &["TRANSP:TRANSPARENT"], ..event("birthday", "Priya's birthday", When::Days(8, 1)) },
    DemoEvent {
        place: Some("By the river"),
        ..event("dinner", "Dinner with Priya", When::At(3, (19, 0), BERLIN, 150))
    },
    DemoEvent {
        more: &["TRANSP:OPAQUE"],
        ..event("holiday", "Away: a few days by the sea", When::Days(20, 5))
    },
    DemoEvent {
        rule: Some("FREQ=WEEKLY;INTERVAL=2"),
        ..event("review", "Plan the next two weeks", When::At(-7, (11, 0), BERLIN, 60))
    },
    DemoEvent {
        more: &["STATUS:CANCELLED"],
        ..event("cancelled", "Lunch with Tom (cancelled)", When::At(2, (12, 0), BERLIN, 60))
    },
    DemoEvent {
        more: &["STATUS:TENTATIVE"],
        ..event("focus", "Write the proposal", When::At(1, (9, 30), BERLIN, 120))
    },
];

/// A task of the demo, with days counted from today.
pub(super) struct DemoTask {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// In days from today.
    pub(super) due: Option<i64>,
    /// As iCalendar counts: 1 is highest.
    pub(super) priority: u8,
    pub(super) project: Option<&'static str>,
    pub(super) done: bool,
    pub(super) more: &'static [&'static str],
}

const fn task(id: &'static str, title: &'static str, due: Option<i64>, priority: u8) -> DemoTask {
    DemoTask { id, title, due, priority, project: None, done: false, more: &[] }
}

pub(super) const TASKS: &[DemoTask] = &[
    DemoTask { project: Some("Acme"), ..task("budget", "Send the final budget to Tom", Some(2), 1) },
    DemoTask {
        project: Some("Acme"),
        ..task("training-line", "Add two days of training to the budget", Some(1), 1)
    },
    DemoTask {
        project: Some("Acme"),
        ..task("material", "Say in the contract who owns the material", Some(1), 3)
    },
    DemoTask { project: Some("Nordwind"), ..task("rechnung", "Rechnung an Nordwind schicken", Some(5), 5) },
    DemoTask {
        project: Some("Sakura"), ..task("mitsumori", "見積書の金額を確認する", Some(1), 2)
    },
    DemoTask {
        project: Some("Cedar"),
        ..task("offer", "Quote for Layla, with and without training", Some(0), 1)
    },
    DemoTask { ..task("invoice", "Pay Cloudlake invoice 4471", Some(4), 5) },
    DemoTask { ..task("present", "A present for Priya", Some(7), 0) },
    DemoTask {
        done: true,
        project: Some("Acme"),
        ..task("split", "Split the budget into three parts", Some(-8), 5)
    },
    DemoTask {
        more: &["RRULE:FREQ=MONTHLY"],
        ..task("backup", "Check that the backup can be restored", Some(10), 5)
    },
];

/// A contact of the demo.
pub(super) struct DemoContact {
    pub(super) id: &'static str,
    pub(super) given: &'static str,
    pub(super) family: &'static str,
    pub(super) company: Option<&'static str>,
    pub(super) title: Option<&'static str>,
    pub(super) mail: &'static str,
    pub(super) phone: Option<&'static str>,
    pub(super) note: Option<&'static str>,
}

const fn contact(
    id: &'static str,
    given: &'static str,
    family: &'static str,
    company: Option<&'static str>,
    mail: &'static str,
) -> DemoContact {
    DemoContact { id, given, family, company, mail, title: None, phone: None, note: None }
}

pub(super) const CONTACTS: &[DemoContact] = &[
    DemoContact {
        title: Some("Head of Operations"),
        phone: Some("+1 555 0100"),
        note: Some("Met at the fair. Prefers calls after 15:00."),
        ..contact("sarah", "Sarah", "Chen", Some("Acme"), "sarah.chen@acme.example")
    },
    DemoContact {
        title: Some("Purchasing"),
        ..contact("tom", "Tom", "Okafor", Some("Acme"), "tom.okafor@acme.example")
    },
    contact("jonas", "Jonas", "Weber", Some("Nordwind"), "jonas.weber@nordwind.example"),
    DemoContact {
        note: Some("Rechnungen: Nordwind, Buchhaltung, Kanalstraße 5, 23552 Lübeck"),
        ..contact("anna", "Anna", "Schröder", Some("Nordwind"), "anna.schroeder@nordwind.example")
    },
    contact("yuki", "由紀", "田中", Some("サクラ商事"), "yuki.tanaka@sakura.example"),
    contact("layla", "ليلى", "حداد", Some("Cedar"), "layla.haddad@cedar.example"),
    DemoContact {
        phone: Some("+49 30 5550123"),
        ..contact("priya", "Priya", "Nair", None, "priya.nair@example.org")
    },
    contact("sarah-l", "Sarah", "Lindqvist", Some("Fjord Press"), "sarah@fjordpress.example"),
];
