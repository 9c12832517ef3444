//! One connection to a submission server.

use std::collections::BTreeMap;

use secrecy::ExposeSecret as _;

use crate::account::Fault;
use crate::text::cleaned;
use crate::wire::{Login, Mechanism, Opened, Server, Timeouts, Wire, bearer_refusal_answer};

/// What a reply may have.
const REPLY_BYTES_MAX: usize = 64 << 10;
const REPLY_LINES_MAX: usize = 100;
const LINE_BYTES_MAX: usize = 4 << 10;
/// How we introduce ourselves: a name of this machine is nobody's business.
const EHLO: &str = "EHLO [127.0.0.1]";

/// What a server replied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) code: u16,
    lines: Vec<String>,
}

/// What a reply means, by its first digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Done,
    GoOn,
    NotNow,
    Never,
    /// No digit that means something.
    Nothing,
}

impl Reply {
    pub(super) fn meaning(&self) -> Meaning {
        match self.code / 100 {
            2 => Meaning::Done,
            3 => Meaning::GoOn,
            4 => Meaning::NotNow,
            5 => Meaning::Never,
            _ => Meaning::Nothing,
        }
    }

    /// Code and words on one line, shortened.
    pub(super) fn words(&self) -> String {
        cleaned(&format!("{} {}", self.code, self.lines.join(" ")), 300)
    }
}

/// A connection that has logged in.
pub(super) struct Session {
    wire: Wire,
    /// What the server can, with what it says about it: `SIZE` to `26214400`.
    can: BTreeMap<String, String>,
}

impl Session {
    /// Connects and logs in.
    pub(super) async fn open(server: &Server, login: &Login, timeouts: Timeouts) -> Result<Self, Fault> {
        let mut session = match Wire::open(server, timeouts).await? {
            Opened::Ready(wire) => {
                let mut session = Self { wire, can: BTreeMap::new() };
                session.greeted().await?;
                session
            }
            Opened::Plain(mut plain) => {
                ask_for_tls(plain.wire()).await?;
                Self { wire: plain.secured().await?, can: BTreeMap::new() }
            }
        };
        // What was said before TLS does not count.
        session.introduce().await?;
        session.log_in(login).await?;
        Ok(session)
    }

    async fn greeted(&mut self) -> Result<(), Fault> {
        self.wire.begin(REPLY_BYTES_MAX);
        let reply = reply(&mut self.wire).await?;
        expect(&self.wire, &reply, "does not greet us")
    }

    async fn introduce(&mut self) -> Result<(), Fault> {
        let reply = self.say(EHLO).await?;
        expect(&self.wire, &reply, "does not take our greeting")?;
        let ability = |line: &String| {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            (name.to_ascii_uppercase(), rest.to_ascii_uppercase())
        };
        self.can = reply.lines.iter().skip(1).map(ability).collect();
        Ok(())
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Fault> {
        let offered = self.can("AUTH").unwrap_or_default().to_owned();
        let offers = |name: &str| offered.split(' ').any(|offered| offered == name);
        let Some(mechanism) = Mechanism::choose(login, offers) else {
            return Err(Fault::Login(format!("{} takes no login of this kind", self.wire.server())));
        };
        let mut words = match mechanism {
            Mechanism::Login => login.words().await?.to_vec(),
            Mechanism::OauthBearer | Mechanism::Xoauth2 | Mechanism::Plain => {
                vec![login.first_words(mechanism, &self.wire.server().host).await?]
            }
        };
        words.reverse();
        let mut reply = self.say(&format!("AUTH {}", mechanism.name())).await?;
        // A server that goes on asking is refused by silence: three questions are all there are.
        for _ in 0..3 {
            if reply.meaning() != Meaning::GoOn {
                break;
            }
            match words.pop() {
                Some(word) => {
                    self.wire.write(word.expose_secret().as_bytes()).await?;
                    self.wire.write(b"\r\n").await?;
                }
                None => self.wire.write(bearer_refusal_answer(mechanism)).await?,
            }
            reply = self.reply().await?;
        }
        let (server, user) = (self.wire.server(), login.user());
        match reply.meaning() {
            Meaning::Done => Ok(()),
            Meaning::NotNow => {
                Err(Fault::Unreachable(format!("{server} cannot check logins now: {}", reply.words())))
            }
            Meaning::GoOn | Meaning::Never | Meaning::Nothing => Err(Fault::Login(format!(
                "{server} does not accept the login of `{user}`: {}",
                reply.words()
            ))),
        }
    }

    /// What the server says about something that it can.
    pub(super) fn can(&self, what: &str) -> Option<&str> {
        self.can.get(what).map(String::as_str)
    }

    /// Everything that it says it can.
    pub(super) fn abilities(&self) -> impl Iterator<Item = String> {
        self.can.iter().map(|(name, rest)| format!("{name} {rest}").trim_end().to_owned())
    }

    /// One line, and the reply to it.
    pub(super) async fn say(&mut self, line: &str) -> Result<Reply, Fault> {
        self.wire.begin(REPLY_BYTES_MAX);
        self.wire.write(format!("{line}\r\n").as_bytes()).await?;
        reply(&mut self.wire).await
    }

    pub(super) async fn reply(&mut self) -> Result<Reply, Fault> {
        reply(&mut self.wire).await
    }

    pub(super) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Says goodbye; the answer does not matter.
    pub(super) async fn quit(mut self) {
        let _ = self.wire.write(b"QUIT\r\n").await;
    }
}

async fn ask_for_tls(wire: &mut Wire) -> Result<(), Fault> {
    wire.begin(REPLY_BYTES_MAX);
    let greeting = reply(wire).await?;
    expect(wire, &greeting, "does not greet us")?;
    wire.write(format!("{EHLO}\r\n").as_bytes()).await?;
    let introduced = reply(wire).await?;
    expect(wire, &introduced, "does not take our greeting")?;
    wire.write(b"STARTTLS\r\n").await?;
    match reply(wire).await?.meaning() {
        Meaning::Done => Ok(()),
        Meaning::GoOn | Meaning::NotNow | Meaning::Never | Meaning::Nothing => Err(Fault::Refused(format!(
            "{} does not offer TLS, and nothing is sent there without it",
            wire.server()
        ))),
    }
}

fn expect(wire: &Wire, reply: &Reply, otherwise: &str) -> Result<(), Fault> {
    let text = || format!("{} {otherwise}: {}", wire.server(), reply.words());
    match reply.meaning() {
        Meaning::Done => Ok(()),
        Meaning::NotNow => Err(Fault::Unreachable(text())),
        Meaning::Never => Err(Fault::Refused(text())),
        Meaning::GoOn | Meaning::Nothing => Err(Fault::Nonsense(text())),
    }
}

/// One reply: lines `250-…` up to `250 …`.
async fn reply(wire: &mut Wire) -> Result<Reply, Fault> {
    let mut lines = Vec::new();
    while lines.len() < REPLY_LINES_MAX {
        let line = wire.line(LINE_BYTES_MAX).await?;
        let text = String::from_utf8_lossy(&line);
        let (Some(code), rest) = (text.get(..3), text.get(3..).unwrap_or_default()) else { break };
        let Some(code) = code.parse().ok().filter(|code| (200..600).contains(code)) else { break };
        lines.push(rest.get(1..).unwrap_or_default().to_owned());
        match rest.starts_with('-') {
            true => {}
            false => return Ok(Reply { code, lines }),
        }
    }
    Err(Fault::Nonsense(format!("{} does not reply as a mail server does", wire.server())))
}
