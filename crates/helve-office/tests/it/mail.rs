//! Mails: composed so that nothing slips in, read whatever comes.

use helve_office::mail::reply::{
    Audience, as_html, forward_subject, forwarded, quoted, recipients, reply_subject, thread,
};
use helve_office::mail::{Attached, Body, Composed, Letter, Mail, ReadError, Thread, compose};
use helve_office::text::{Address, FileName, MailText, Mailbox, MessageId, Recipients, Subject};
use jiff::tz::TimeZone;
use proptest::prelude::*;

use crate::utc;

fn letter() -> Letter {
    Letter {
        from: Mailbox::parse("Ada Lovelace <ada@example.org>").unwrap(),
        recipients: Some(
            Recipients::new(
                &["Bob <bob@example.org>".into()],
                &["carol@example.org".into()],
                &["dan@example.org".into()],
            )
            .unwrap(),
        ),
        reply_to: Vec::new(),
        kept: Vec::new(),
        subject: Subject::new("Hello").unwrap(),
        text: MailText::new("Hi Bob,\nhow are you?\n").unwrap(),
        html: None,
        attachments: Vec::new(),
        thread: Thread::default(),
        message_id: MessageId::new("<1@example.org>").unwrap(),
        date: utc("20260301T120000"),
    }
}

fn composed(letter: &Letter) -> (Composed, String) {
    let composed = compose(letter).unwrap();
    let text = String::from_utf8(composed.bytes.clone()).unwrap();
    let long = text.split("\r\n").find(|line| line.len() > 998).map(|line| &line[..60]);
    assert_eq!(long, None, "a line is too long");
    assert!(!text.replace("\r\n", "").contains(['\r', '\n']), "a line ends in another way");
    (composed, text)
}

fn read_back(letter: &Letter) -> Mail {
    Mail::read(composed(letter).1.as_bytes()).unwrap()
}

fn text(mail: &Mail) -> &str {
    match &mail.body {
        Body::Text(text) => text,
        Body::TooManyParts => panic!("it has few parts"),
    }
}

#[test]
fn a_letter_has_the_headers_that_it_needs_and_no_bcc() {
    let (composed, text) = composed(&letter());
    for line in [
        "From: \"Ada Lovelace\" <ada@example.org>\r\n",
        "To: Bob <bob@example.org>\r\n",
        "Cc: carol@example.org\r\n",
        "Subject: Hello\r\n",
        "Message-ID: <1@example.org>\r\n",
        "Date: Sun, 01 Mar 2026 12:00:00 +0000\r\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("dan@") && !text.to_lowercase().contains("bcc"));
    let envelope: Vec<&str> = composed.recipients.iter().map(Address::as_str).collect();
    assert_eq!(envelope, ["bob@example.org", "carol@example.org", "dan@example.org"]);
    assert_eq!(composed.sender.as_str(), "ada@example.org");
}

#[test]
fn text_html_and_files_are_read_as_they_were_written() {
    let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let written = Letter {
        subject: Subject::new("Grüße 🗓️, 会議").unwrap(),
        text: MailText::new("Ünïcode\r\n.\r\nFrom here\r\n").unwrap(),
        html: Some(MailText::new("<p>Ünïcode</p>").unwrap()),
        attachments: vec![Attached {
            name: FileName::new("Übersicht, \"Q1\".pdf").unwrap(),
            media_type: "application/pdf".into(),
            bytes: bytes.clone(),
            content_id: None,
        }],
        ..letter()
    };
    let (_, raw) = composed(&written);
    let mail = Mail::read(raw.as_bytes()).unwrap();
    assert_eq!(mail.subject, "Grüße 🗓️, 会議");
    assert_eq!(text(&mail), "Ünïcode\n.\nFrom here\n");
    let [file] = &mail.attachments[..] else { panic!("{:?}", mail.attachments) };
    assert_eq!(
        (file.name.as_str(), file.media_type.as_str(), file.bytes),
        ("Übersicht, \"Q1\".pdf", "application/pdf", 10_000)
    );
    assert_eq!(Mail::attachment(raw.as_bytes(), file.part), Some(bytes));
    assert_eq!(Mail::attachment(raw.as_bytes(), 99), None);
}

#[test]
fn nothing_makes_a_line_longer_than_a_line_may_be() {
    let many = |count: usize| {
        (0..count).map(|i| format!("\"{}\" <a{i}@example.org>", "n".repeat(190))).collect::<Vec<_>>()
    };
    let ids = |count: usize| {
        (0..count).map(|i| MessageId::new(&format!("{}@{i}", "x".repeat(200))).unwrap()).collect::<Vec<_>>()
    };
    let names = |count: usize| {
        (0..count).map(|i| format!("{} <u{i}@example.org>", "ü ü".repeat(30))).collect::<Vec<_>>()
    };
    for subject in ["x".repeat(998), "ü".repeat(998), format!("a {}", "b".repeat(990)), "word ".repeat(199)]
    {
        let written = Letter {
            subject: Subject::new(&subject).unwrap(),
            recipients: Some(Recipients::new(&many(40), &names(10), &[]).unwrap()),
            text: MailText::new(&"z".repeat(100_000)).unwrap(),
            html: Some(MailText::new(&"é".repeat(100_000)).unwrap()),
            thread: Thread { in_reply_to: Some(ids(1).remove(0)), references: ids(100) },
            attachments: vec![Attached {
                name: FileName::new(&"f".repeat(255)).unwrap(),
                media_type: "text/plain".into(),
                bytes: vec![b'x'; 5_000],
                content_id: None,
            }],
            ..letter()
        };
        let mail = read_back(&written);
        assert_eq!(mail.subject, subject.trim()[..].chars().take(990).collect::<String>().trim());
        assert_eq!((mail.to.len(), mail.cc.len()), (40, 10));
        assert_eq!(mail.cc[9].name.as_deref(), Some("ü ü".repeat(30).as_str()));
        assert_eq!(text(&mail).trim_end(), "z".repeat(100_000));
        assert_eq!(mail.references.len(), 30, "the first and the last ones");
        assert_eq!((&mail.references[0], &mail.references[29]), (&ids(1)[0], &ids(100)[99]));
    }
}

#[test]
fn a_draft_may_have_nobody_yet_and_a_wrong_type_is_told() {
    let draft = Letter { recipients: None, ..letter() };
    assert!(composed(&draft).0.recipients.is_empty());
    let mut wrong = letter();
    let name = FileName::new("a.txt").unwrap();
    wrong.attachments.push(Attached {
        name,
        media_type: "text/plain\r\nBcc: x@y.org".into(),
        bytes: Vec::new(),
        content_id: None,
    });
    assert!(compose(&wrong).is_err());
    for name in ["../../etc/passwd", "a\\b", ".bashrc", "a\r\nb", "", "a\u{202e}fdp.exe"] {
        assert!(FileName::new(name).is_err(), "{name:?}");
    }
    for body in ["a\0b", "\u{1b}[31m", &"x".repeat(100_001)] {
        assert!(MailText::new(body).is_err());
    }
    assert_eq!(MailText::new("a\rb\r\nc\u{200f}").unwrap().as_str(), "a\nb\nc\u{200f}");
}

const ORIGINAL: &str = "From: =?utf-8?Q?J=C3=B6rg?= <joerg@example.org>\r\nTo: ada@example.org, \"Eve, E.\" <eve@example.org>\r\n\
    Cc: joerg@EXAMPLE.org, broken@, undisclosed:;\r\nSubject: =?iso-8859-1?Q?Gr=FC=DFe?=\r\n\
    Date: Sun, 1 Mar 2026 23:30:00 +0100\r\nMessage-ID: <b@x>\r\nReferences: <a@x>\r\n <a2@x>\r\nIn-Reply-To: <a2@x>\r\n\
    \r\nLine one\r\n> older\r\n\r\nLine two\r\n";

fn original() -> Mail {
    Mail::read(ORIGINAL.as_bytes()).unwrap()
}

#[test]
fn a_reply_threads_and_goes_to_those_who_are_meant() {
    let mail = original();
    assert_eq!(mail.subject, "Grüße");
    let ids: Vec<String> = thread(&mail).references.iter().map(ToString::to_string).collect();
    assert_eq!(ids, ["<a@x>", "<a2@x>", "<b@x>"]);
    assert_eq!(thread(&mail).in_reply_to.unwrap().as_str(), "<b@x>");
    let own = [Address::new("Ada@example.org").unwrap()];
    let shown = |audience| {
        let (to, cc) = recipients(&mail, &own, audience);
        let list = |list: Vec<Mailbox>| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ");
        format!("{} / {}", list(to), list(cc))
    };
    assert_eq!(shown(Audience::Sender), "Jörg <joerg@example.org> / ");
    assert_eq!(shown(Audience::All), "Jörg <joerg@example.org> / \"Eve, E.\" <eve@example.org>");
    let jörg = [Address::new("joerg@example.org").unwrap()];
    let (to, _) = recipients(&mail, &jörg, Audience::Sender);
    assert_eq!(to.len(), 2, "an answer to oneself goes to those whom the mail went to");
    let elsewhere =
        Mail::read(ORIGINAL.replace("Cc: ", "Reply-To: list@example.org\r\nCc: ").as_bytes()).unwrap();
    assert_eq!(recipients(&elsewhere, &own, Audience::Sender).0[0].to_string(), "list@example.org");
    let orphan = Mail::read(ORIGINAL.replace("References: <a@x>\r\n <a2@x>\r\n", "").as_bytes()).unwrap();
    assert_eq!(thread(&orphan).references.len(), 2, "the parent's parent is in In-Reply-To");
}

#[test]
fn subjects_get_their_prefix_once() {
    for (original, reply, forward) in [
        ("Plan", "Re: Plan", "Fwd: Plan"),
        ("RE: Plan", "RE: Plan", "Fwd: RE: Plan"),
        ("AW: Plan", "AW: Plan", "Fwd: AW: Plan"),
        ("Fw: Plan", "Re: Fw: Plan", "Fw: Plan"),
        ("", "Re:", "Fwd:"),
        ("Report", "Re: Report", "Fwd: Report"),
    ] {
        assert_eq!((reply_subject(original).as_str(), forward_subject(original).as_str()), (reply, forward));
    }
    assert!(Subject::new(&reply_subject(&"ü".repeat(998))).is_ok());
}

#[test]
fn quotes_say_who_wrote_what_and_are_cut_to_a_budget() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    assert_eq!(
        quoted("Thanks!\n", &original(), &zone, 10_000),
        "Thanks!\n\nOn 2026-03-01 23:30 +01:00, Jörg <joerg@example.org> wrote:\n> Line one\n>> older\n> \n> Line two\n"
    );
    assert!(quoted("", &original(), &zone, 12).ends_with("> Line one\n> […]\n"));
    let text = forwarded("See below.", &original(), &zone, 10_000);
    assert_eq!(
        text,
        "See below.\n\n---------- Forwarded message ----------\nFrom: Jörg <joerg@example.org>\nDate: 2026-03-01 23:30 +01:00\n\
         Subject: Grüße\nTo: ada@example.org, Eve, E. <eve@example.org>\nCc: joerg@EXAMPLE.org, broken@\n\n\
         Line one\n> older\n\nLine two\n"
    );
    assert_eq!(
        as_html("<b>&\"x\"\n"),
        "<div style=\"white-space: pre-wrap\">&lt;b&gt;&amp;&quot;x&quot;\n</div>"
    );
}

#[test]
fn mails_in_every_charset_and_form_are_read() {
    let japanese = b"Subject: =?ISO-2022-JP?B?GyRCMnE1RBsoQg==?=\r\nContent-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$B2q5D\x1b(B\r\n";
    let mail = Mail::read(japanese).unwrap();
    assert_eq!((mail.subject.as_str(), text(&mail).trim()), ("会議", "会議"));
    let arabic = "Subject: اجتماع\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><head><style>x{}</style></head><body><p>مرحبا <b>بكم</b></p><script>evil()</script></body></html>";
    let mail = Mail::read(arabic.as_bytes()).unwrap();
    assert_eq!((mail.subject.as_str(), text(&mail).trim()), ("اجتماع", "مرحبا بكم"));
    let windows = b"From: a@b.org\r\nContent-Type: text/plain; charset=windows-1252\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=93caf=E9=94=\r\n!\r\n";
    assert_eq!(text(&Mail::read(windows).unwrap()).trim(), "“café”!");
}

#[test]
fn hostile_headers_and_names_come_out_harmless() {
    let raw = "From: \"a\u{202e}b\" <a@b.org>\r\nSubject: =?utf-8?Q?x=0D=0ABcc:_y=40z.org=00=E2=80=AE?=\r\n\
        Content-Type: multipart/mixed; boundary=q\r\n\r\n--q\r\nContent-Type: text/plain\r\n\r\nhi\r\n\
        --q\r\nContent-Disposition: attachment; filename=\"../../.ssh/authorized_keys\"\r\nContent-Type: text/x-sh\r\n\r\nx\r\n\
        --q\r\nContent-Disposition: attachment; filename=\"a=?\u{202e}fdp.exe\"\r\nContent-Type: application/x\r\n\r\nx\r\n\
        --q\r\nContent-Disposition: attachment\r\nContent-Type: application/x\r\n\r\nx\r\n--q--\r\n";
    let mail = Mail::read(raw.as_bytes()).unwrap();
    assert_eq!(mail.from[0].name.as_deref(), Some("ab"));
    assert_eq!(mail.subject, "x Bcc: y@z.org");
    let names: Vec<&str> = mail.attachments.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["authorized_keys", "a=?fdp.exe", "attachment-4"]);
}

#[test]
fn mails_within_mails_without_end_are_read_without_their_body() {
    let nested = "Subject: x\r\nContent-Type: message/rfc822\r\n\r\n".repeat(200_000);
    let digest =
        "Subject: x\r\ncontent-TYPE: multipart/digest; boundary=a\r\n\r\n--a\r\n\r\n".repeat(100_000);
    let parts = "Subject: x\r\nContent-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n".repeat(100_000);
    for hostile in [nested, digest, parts] {
        let mail = Mail::read(hostile.as_bytes()).unwrap();
        assert_eq!((mail.subject.as_str(), &mail.body), ("x", &Body::TooManyParts));
        assert_eq!(mail.page(0, 100).text, "");
        assert_eq!(Mail::attachment(hostile.as_bytes(), 1), None);
    }
    // Right below the limit they are read.
    let some = "Subject: x\r\nContent-Type: message/rfc822\r\n\r\n".repeat(400);
    assert_ne!(Mail::read(some.as_bytes()).unwrap().body, Body::TooManyParts);
}

#[test]
fn large_and_empty_mails_are_told_apart() {
    let large =
        [b"Subject: big\r\n\r\n".as_slice(), &b"0123456789abcdef 012345678901234\r\n".repeat(1_500_000)]
            .concat();
    assert!(large.len() > 50_000_000);
    let mail = Mail::read(&large).unwrap();
    let page = mail.page(0, 1_000);
    assert!(page.text.len() <= 1_000 && page.next.is_some() && page.total > 45_000_000);
    assert_eq!(Mail::read(&vec![b'x'; (64 << 20) + 1]), Err(ReadError::TooLarge { found: (64 << 20) + 1 }));
    assert_eq!(Mail::read(b""), Err(ReadError::NoMail));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Pages follow each other without a gap and are never empty, whatever the budget.
    #[test]
    fn pages_make_up_the_body(body in "[a-zü 🗓\\n]{0,300}", budget in 0..50usize) {
        let mut mail = original();
        mail.body = Body::Text(body.clone());
        let (mut whole, mut at) = (String::new(), Some(0));
        while let Some(from) = at {
            let page = mail.page(from, budget);
            prop_assert!(page.text.len() <= budget.max(4) && (page.next.is_none() || !page.text.is_empty()));
            whole.push_str(page.text);
            at = page.next;
        }
        prop_assert_eq!(whole, body);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        head in "(Subject|From|To|Content-Type|References|Date): [^\\r\\n]{0,60}\r\n",
        rest in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let raw = [head.as_bytes(), b"\r\n", &rest].concat();
        if let Ok(mail) = Mail::read(&raw) {
            prop_assert!(!mail.subject.chars().any(char::is_control));
            let _ = (thread(&mail), recipients(&mail, &[], Audience::All), mail.page(3, 7));
        }
    }

    /// Whatever is said in a letter is read back, and adds no header.
    #[test]
    fn what_is_written_is_read_back(subject in "\\PC{1,80}", said in "[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]{0,200}") {
        let (Ok(subject), Ok(said)) = (Subject::new(&subject), MailText::new(&said)) else { return Ok(()) };
        let written = Letter { subject: subject.clone(), text: said.clone(), ..letter() };
        let mail = read_back(&written);
        prop_assert_eq!(mail.message_id.as_ref(), Some(&written.message_id));
        prop_assert_eq!((mail.to.len(), mail.cc.len(), mail.references.len()), (1, 1, 0));
        prop_assert_eq!(text(&mail).trim_end_matches('\n'), said.as_str().trim_end_matches('\n'));
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert_eq!(squeezed(&mail.subject), squeezed(subject.as_str()));
    }
}

#[test]
fn a_message_within_a_message_is_never_encoded() {
    let inner = "From: b@example.org\nSubject: inner\nMIME-Version: 1.0\n\nGrüße\nline two\n";
    let with = |bytes: Vec<u8>| Letter {
        attachments: vec![Attached {
            name: FileName::new("inner.eml").unwrap(),
            media_type: "message/rfc822".into(),
            bytes,
            content_id: None,
        }],
        ..letter()
    };
    let written = compose(&with(inner.into())).unwrap();
    let raw = String::from_utf8(written.bytes.clone()).unwrap();
    assert!(raw.contains("Content-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n"), "{raw}");
    assert!(raw.contains(&inner.replace('\n', "\r\n")), "{raw}");
    let mail = Mail::read(&written.bytes).unwrap();
    let [file] = &mail.attachments[..] else { panic!("{:?}", mail.attachments) };
    let found = Mail::attachment(&written.bytes, file.part).unwrap();
    assert_eq!(Mail::read(&found).unwrap().subject, "inner");
    // What no server would take as it is goes as a file.
    let written = compose(&with(format!("Subject: x\n\n{}\n", "y".repeat(2_000)).into())).unwrap();
    let raw = String::from_utf8(written.bytes).unwrap();
    assert!(raw.contains("application/octet-stream") && !raw.contains("message/rfc822"), "{raw}");
}

#[test]
fn images_of_a_letter_are_shown_by_their_ids() {
    let written = Letter {
        html: Some(MailText::new("<img src=\"cid:logo@x\">").unwrap()),
        attachments: vec![Attached {
            name: FileName::new("logo.png").unwrap(),
            media_type: "image/png".into(),
            bytes: vec![1, 2, 3],
            content_id: Some("logo@x".into()),
        }],
        ..letter()
    };
    let (_, raw) = composed(&written);
    assert!(raw.contains("multipart/related") && raw.contains("Content-ID: <logo@x>"), "{raw}");
    let mail = Mail::read(raw.as_bytes()).unwrap();
    assert_eq!(mail.attachments[0].content_id.as_deref(), Some("logo@x"));
    let mut wrong = written;
    wrong.attachments[0].content_id = Some("x>\r\nBcc: eve@example.org".into());
    assert!(!composed(&wrong).1.contains("eve@"));
}
