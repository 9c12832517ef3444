//! One connection that has logged in.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use secrecy::ExposeSecret as _;
use tokio::time::timeout;

use super::command::{Command, Piece};
use super::response::{self, Kind, Part, Response, Status, Value};
use crate::account::Fault;
use crate::wire::{Login, Mechanism, Opened, Server, Timeouts, Wire, bearer_refusal_answer};

/// What most commands may answer.
pub(super) const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The longest line: all UIDs of a large folder stand in one.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Most values in the answer to one command.
const VALUES_MAX: usize = 4_000_000;

/// A connection that has logged in.
pub(super) struct Session {
    wire: Wire,
    tags: u64,
    can: BTreeSet<String>,
    /// Whether the whole of the last command went out.
    sent: bool,
    /// The folder that is open, as it was then.
    inside: Option<(String, Access, Folder)>,
}

/// How a folder is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing is marked by it.
    Read,
    /// To remove messages.
    Write,
}

/// A folder as it was when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Folder {
    /// UIDs mean the same as long as this does not change.
    pub(super) validity: u32,
    /// The UID that the next message gets, where the server says.
    pub(super) next: Option<u32>,
    /// How many messages there are.
    pub(super) exists: u64,
    /// When something last changed, as the server counts; where it does.
    pub(super) modseq: Option<u64>,
}

/// All that a server said to one command.
#[derive(Debug)]
pub(super) struct CommandReply {
    pub(super) data: Vec<Vec<Value>>,
    says: Vec<Status>,
    pub(super) done: Status,
}

impl Session {
    /// Connects and logs in.
    pub(super) async fn open(server: &Server, login: &Login, timeouts: Timeouts) -> Result<Self, Fault> {
        let mut session = match Wire::open(server, timeouts).await? {
            Opened::Ready(wire) => {
                let mut session = Self::new(wire);
                session.greeted().await?;
                session
            }
            Opened::Plain(mut plain) => {
                ask_for_tls(plain.wire()).await?;
                Self::new(plain.secured().await?)
            }
        };
        session.learn().await?;
        session.log_in(login).await?;
        // Servers say more about themselves to those they know.
        session.learn().await?;
        Ok(session)
    }

    fn new(wire: Wire) -> Self {
        Self { wire, tags: 0, can: BTreeSet::new(), sent: false, inside: None }
    }

    /// Whether the server has an extension.
    pub(super) fn can(&self, what: &str) -> bool {
        self.can.contains(what)
    }

    /// Everything that the server says it can.
    pub(super) fn abilities(&self) -> impl Iterator<Item = &str> {
        self.can.iter().map(String::as_str)
    }

    async fn greeted(&mut self) -> Result<(), Fault> {
        self.wire.begin(ANSWER_BYTES_MAX);
        match self.respond().await? {
            Response::Says(Status { kind: Kind::Ok, .. }) => Ok(()),
            Response::Says(Status { kind: Kind::Bye, words, .. }) => {
                Err(self.unreachable("refuses us", &words))
            }
            // PREAUTH as well: we would not know as whom.
            _ => Err(self.nonsense("does not greet as an IMAP server does")),
        }
    }

    async fn learn(&mut self) -> Result<(), Fault> {
        let answer = self.run(Command::new("CAPABILITY"), ANSWER_BYTES_MAX).await?;
        let data = answer.ok("cannot say what it can")?;
        let said = data.iter().filter(|data| data.first().is_some_and(|first| first.is("CAPABILITY")));
        self.can =
            said.flat_map(|data| &data[1..]).filter_map(Value::word).map(str::to_ascii_uppercase).collect();
        Ok(())
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Fault> {
        let offered = |name: &str| self.can(&format!("AUTH={name}"));
        let answer = match (Mechanism::choose(login, offered), login) {
            (Some(mechanism), _) => self.authenticate(login, mechanism).await?,
            (None, Login::Password { .. } | Login::Kept { .. }) if !self.can("LOGINDISABLED") => {
                let password = login.password().await?;
                let command = Command::new("LOGIN").string(login.user())?.string(password.expose_secret())?;
                self.run(command, ANSWER_BYTES_MAX).await?.done
            }
            (None, _) => {
                return Err(Fault::Login(format!("{} takes no login of this kind", self.wire.server())));
            }
        };
        match answer.kind {
            Kind::Ok => Ok(()),
            _ if answer.coded("UNAVAILABLE").is_some() => {
                Err(self.unreachable("cannot check logins now", &answer.words))
            }
            _ => Err(Fault::Login(format!(
                "{} does not accept the login of `{}`: {}",
                self.wire.server(),
                login.user(),
                answer.words
            ))),
        }
    }

    async fn authenticate(&mut self, login: &Login, mechanism: Mechanism) -> Result<Status, Fault> {
        let mut words = match mechanism {
            Mechanism::Login => login.words().await?.to_vec(),
            Mechanism::OauthBearer | Mechanism::Xoauth2 | Mechanism::Plain => {
                vec![login.first_words(mechanism, &self.wire.server().host).await?]
            }
        };
        words.reverse();
        let tag = self.tag();
        self.wire.begin(ANSWER_BYTES_MAX);
        self.wire.write(format!("{tag} AUTHENTICATE {}\r\n", mechanism.name()).as_bytes()).await?;
        loop {
            match self.respond().await? {
                Response::Continue => match words.pop() {
                    Some(word) => {
                        self.wire.write(word.expose_secret().as_bytes()).await?;
                        self.wire.write(b"\r\n").await?;
                    }
                    None => self.wire.write(bearer_refusal_answer(mechanism)).await?,
                },
                Response::Done(done, status) if done == tag.as_bytes() => return Ok(status),
                Response::Says(Status { kind: Kind::Bye, words, .. }) => {
                    return Err(self.unreachable("ended the session", &words));
                }
                Response::Done(..) | Response::Says(_) | Response::Data(_) | Response::Odd => {}
            }
        }
    }

    /// Leaves the folder that is open, if one is. What a connection that was kept is tried with: where that
    /// folder was deleted, Dovecot refuses whatever is asked next.
    pub(super) async fn leave(&mut self) -> Result<(), Fault> {
        let command = match self.inside.take() {
            Some(_) if self.can("UNSELECT") => "UNSELECT",
            Some(_) | None => "NOOP",
        };
        self.run(Command::new(command), ANSWER_BYTES_MAX).await?.ok("does not answer").map(drop)
    }

    /// Opens a folder.
    pub(super) async fn enter(&mut self, path: &str, access: Access) -> Result<Folder, Fault> {
        let verb = match access {
            Access::Read => "EXAMINE",
            Access::Write => "SELECT",
        };
        let mut command = Command::new(verb).folder(path)?;
        if self.can("CONDSTORE") {
            command = command.then(" (CONDSTORE)");
        }
        self.inside = None;
        let answer = self.run(command, ANSWER_BYTES_MAX).await?;
        if answer.done.kind == Kind::No && answer.done.code.is_empty() {
            // Servers without codes have no other word for it.
            return Err(Fault::Gone(format!("the folder cannot be opened: {}", answer.done.words)));
        }
        let coded = |name| answer.says.iter().find_map(|says| says.coded(name)?.first()?.number());
        let folder = Folder {
            validity: coded("UIDVALIDITY").and_then(|validity| u32::try_from(validity).ok()).unwrap_or(0),
            next: coded("UIDNEXT").and_then(|next| u32::try_from(next).ok()),
            exists: answer.data.iter().rev().find_map(|data| exists(data)).unwrap_or(0),
            modseq: coded("HIGHESTMODSEQ").filter(|modseq| *modseq > 0),
        };
        answer.ok("the folder cannot be opened")?;
        match folder.validity {
            // RFC 3501 has such servers; their UIDs mean nothing next time.
            0 => Err(self.nonsense("does not number the messages of this folder")),
            _ => {
                self.inside = Some((path.to_owned(), access, folder));
                Ok(folder)
            }
        }
    }

    /// The same for a reader that goes on: where the folder is open still and has the messages that it had, it is
    /// not opened again, which takes a server seconds for many messages. Its count of changes may be an old one.
    pub(super) async fn stay(&mut self, path: &str) -> Result<Folder, Fault> {
        let Some((inside, Access::Read, folder)) = self.inside.clone() else {
            return self.enter(path, Access::Read).await;
        };
        if inside != path {
            return self.enter(path, Access::Read).await;
        }
        let answer = self.run(Command::new("NOOP"), ANSWER_BYTES_MAX).await?;
        match answer.done.kind == Kind::Ok && self.inside.is_some() {
            true => Ok(folder),
            false => self.enter(path, Access::Read).await,
        }
    }

    /// Sends a command and reads its whole answer.
    pub(super) async fn run(&mut self, command: Command, bytes_max: usize) -> Result<CommandReply, Fault> {
        let tag = self.tag();
        self.sent = false;
        self.wire.begin(bytes_max);
        let mut answer = CommandReply { data: Vec::new(), says: Vec::new(), done: Status::unsaid() };
        for piece in command.tagged(&tag) {
            match piece {
                Piece::Line(line) => self.wire.write(&line).await?,
                // The server's word first: where it refuses, a long message is never sent.
                Piece::Literal(bytes) => match self.collect(&tag, &mut answer, Until::Continue).await? {
                    Ended::Continued => self.wire.write(&bytes).await?,
                    Ended::Done => return Ok(answer),
                },
            }
        }
        self.sent = true;
        self.collect(&tag, &mut answer, Until::Done).await?;
        Ok(answer)
    }

    /// The same for a command that changes something: where its answer is lost, nobody knows what became of it.
    pub(super) async fn change(&mut self, command: Command) -> Result<CommandReply, Fault> {
        match self.run(command, ANSWER_BYTES_MAX).await {
            Err(Fault::Unreachable(why) | Fault::Nonsense(why)) if self.sent => {
                Err(Fault::Unknown(format!("{why}, and its answer was lost")))
            }
            ran => ran,
        }
    }

    /// Waits until the server says that the open folder changed (RFC 2177). Whether it did before the time was up.
    pub(super) async fn idle(&mut self, at_most: Duration) -> Result<bool, Fault> {
        let tag = self.tag();
        let mut answer = CommandReply { data: Vec::new(), says: Vec::new(), done: Status::unsaid() };
        self.wire.begin(ANSWER_BYTES_MAX);
        self.wire.write(format!("{tag} IDLE\r\n").as_bytes()).await?;
        if let Ended::Done = self.collect(&tag, &mut answer, Until::Continue).await? {
            return answer.ok("the server does not tell of changes").map(|_| false);
        }
        // Longer than our own clock, which ends the wait.
        self.wire.wait_longer(at_most + Duration::from_secs(60));
        let told = timeout(at_most, self.told()).await;
        self.wire.begin(ANSWER_BYTES_MAX);
        self.wire.write(b"DONE\r\n").await?;
        self.collect(&tag, &mut answer, Until::Done).await?;
        told.map_or(Ok(false), |told| told.map(|()| true))
    }

    async fn told(&mut self) -> Result<(), Fault> {
        loop {
            match self.respond().await? {
                Response::Data(data) if data.get(1).is_some_and(is_change) => return Ok(()),
                Response::Says(Status { kind: Kind::Bye, words, .. }) => {
                    return Err(self.unreachable("ended the session", &words));
                }
                Response::Data(_) | Response::Says(_) | Response::Odd => {}
                Response::Continue | Response::Done(..) => {}
            }
        }
    }

    async fn collect(&mut self, tag: &str, into: &mut CommandReply, until: Until) -> Result<Ended, Fault> {
        let mut values = 0;
        loop {
            match self.respond().await? {
                Response::Done(done, status) if done == tag.as_bytes() => {
                    into.done = status;
                    return Ok(Ended::Done);
                }
                Response::Continue if until == Until::Continue => return Ok(Ended::Continued),
                Response::Says(Status { kind: Kind::Bye, words, .. }) => {
                    return Err(self.unreachable("ended the session", &words));
                }
                Response::Says(status) => {
                    values += 1;
                    into.says.push(status);
                }
                Response::Data(data) => {
                    values += data.iter().map(Value::count).sum::<usize>();
                    if data.iter().take(2).any(is_other_messages) {
                        self.inside = None;
                    }
                    into.data.push(data);
                }
                // The asker finds what is missing, and asks for it again by itself.
                Response::Odd => tracing::warn!(server = %self.wire.server(), "an answer could not be read"),
                Response::Continue | Response::Done(..) => {}
            }
            if values > VALUES_MAX {
                return Err(self.nonsense("answers with more than we take"));
            }
        }
    }

    /// One answer with its literals.
    async fn respond(&mut self) -> Result<Response, Fault> {
        let mut parts = Vec::new();
        loop {
            let line = self.wire.line(LINE_BYTES_MAX).await?;
            let literal = response::literal_after(&line);
            parts.push(Part::Text(line));
            match literal {
                Some(len) => parts.push(Part::Literal(self.wire.exactly(len).await?)),
                None => return Ok(response::read(&parts)),
            }
        }
    }

    fn tag(&mut self) -> String {
        self.tags += 1;
        format!("h{}", self.tags)
    }

    fn nonsense(&self, what: &str) -> Fault {
        Fault::Nonsense(format!("{} {what}", self.wire.server()))
    }

    fn unreachable(&self, what: &str, words: &str) -> Fault {
        Fault::Unreachable(format!("{} {what}: {words}", self.wire.server()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Continue,
    Done,
}

enum Ended {
    Continued,
    Done,
}

/// Nothing but the way to TLS is said on a connection without it.
async fn ask_for_tls(wire: &mut Wire) -> Result<(), Fault> {
    wire.begin(64 << 10);
    let greeting = wire.line(8 << 10).await?;
    if !greeting.to_ascii_uppercase().starts_with(b"* OK") {
        return Err(Fault::Refused(format!(
            "{} does not greet as an IMAP server with TLS does",
            wire.server()
        )));
    }
    wire.write(b"t STARTTLS\r\n").await?;
    loop {
        let line: Bytes = wire.line(8 << 10).await?;
        match line.to_ascii_uppercase() {
            line if line.starts_with(b"T OK") => return Ok(()),
            line if line.starts_with(b"* ") => {}
            _ => {
                return Err(Fault::Refused(format!(
                    "{} does not offer TLS, and nothing is sent there without it",
                    wire.server()
                )));
            }
        }
    }
}

fn is_change(what: &Value) -> bool {
    ["EXISTS", "EXPUNGE", "FETCH"].iter().any(|word| what.is(word))
}

/// Whether the folder that is open no longer has the messages that it had.
fn is_other_messages(what: &Value) -> bool {
    ["EXISTS", "EXPUNGE", "VANISHED"].iter().any(|word| what.is(word))
}

fn exists(data: &[Value]) -> Option<u64> {
    match data {
        [count, what] if what.is("EXISTS") => count.number(),
        _ => None,
    }
}

impl Status {
    fn unsaid() -> Self {
        Self { kind: Kind::Bad, code: Vec::new(), words: String::new() }
    }
}

impl CommandReply {
    /// The data, where the command was done.
    pub(super) fn ok(self, otherwise: &str) -> Result<Vec<Vec<Value>>, Fault> {
        let Self { data, done, .. } = self;
        let coded = |names: &[&str]| names.iter().any(|name| done.coded(name).is_some());
        let text = format!("{otherwise}: {}", done.words);
        match done.kind {
            Kind::Ok => Ok(data),
            _ if coded(&["NONEXISTENT", "TRYCREATE"]) => Err(Fault::Gone(text)),
            _ if coded(&["UNAVAILABLE", "INUSE", "SERVERBUG", "LIMIT"]) => Err(Fault::Unreachable(text)),
            _ if coded(&["AUTHORIZATIONFAILED", "EXPIRED", "PRIVACYREQUIRED"]) => Err(Fault::Login(text)),
            Kind::No | Kind::Bad | Kind::Bye | Kind::Preauth => Err(Fault::Refused(text)),
        }
    }
}
