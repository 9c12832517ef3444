//! One mail, from MAIL to the reply after its last dot.

use super::session::{Meaning, Reply, Session};
use crate::account::{Envelope, Fault, Submitted};
use crate::text::Address;
use crate::wire::{Timeouts, needs_eight_bits, smtp_lines};

/// Hands one mail over. All recipients get it, or none.
pub(super) async fn send_mail(
    mut session: Session,
    envelope: &Envelope,
    message: &[u8],
    timeouts: Timeouts,
) -> Submitted {
    let lines = smtp_lines(message);
    let prepared = prepare(&mut session, envelope, &lines).await;
    let ended = match prepared {
        Ok(()) => send(&mut session, &lines, timeouts).await,
        Err(refused) => refused,
    };
    // A server that does not know what it did is not asked for more.
    if !matches!(ended, Submitted::Unknown(_)) {
        session.quit().await;
    }
    ended
}

/// Everything before the mail itself. Whatever fails here, nothing was sent.
async fn prepare(session: &mut Session, envelope: &Envelope, lines: &[u8]) -> Result<(), Submitted> {
    let mail = mail_command(session, envelope, lines)?;
    let reply = session.say(&mail).await.map_err(|fault| unsent(&fault))?;
    taken(&reply, Meaning::Done)?;
    let refused = recipients(session, &envelope.to).await?;
    if !refused.is_empty() {
        // The server must forget those it took: nobody gets a mail that not everybody gets.
        let _ = session.say("RSET").await;
        return Err(recipients_refused(&refused));
    }
    let reply = session.say("DATA").await.map_err(|fault| unsent(&fault))?;
    taken(&reply, Meaning::GoOn)
}

/// `MAIL FROM` with what the server has to know, where it can take that.
fn mail_command(session: &Session, envelope: &Envelope, lines: &[u8]) -> Result<String, Submitted> {
    if memchr::memchr(0, lines).is_some() {
        return Err(never("the mail has a NUL byte, which mail servers refuse"));
    }
    let mut command = format!("MAIL FROM:<{}>", envelope.from);
    if let Some(most) = session.can("SIZE") {
        match most.parse::<usize>() {
            Ok(most) if most > 0 && lines.len() > most => {
                return Err(never(&format!("the mail has {} bytes; the server takes {most}", lines.len())));
            }
            Ok(_) | Err(_) => command.push_str(&format!(" SIZE={}", lines.len())),
        }
    }
    let (headers, body) = needs_eight_bits(lines);
    if headers || body {
        match session.can("8BITMIME") {
            Some(_) => command.push_str(" BODY=8BITMIME"),
            None => return Err(never("the server takes no mails with letters beyond ASCII (8BITMIME)")),
        }
    }
    if headers {
        match session.can("SMTPUTF8") {
            Some(_) => command.push_str(" SMTPUTF8"),
            None => return Err(never("the server takes no headers or addresses beyond ASCII (SMTPUTF8)")),
        }
    }
    Ok(command)
}

/// The recipients that the server does not take.
async fn recipients<'a>(
    session: &mut Session,
    to: &'a [Address],
) -> Result<Vec<(&'a Address, Reply)>, Submitted> {
    if to.is_empty() {
        return Err(never("the mail has no recipient"));
    }
    let mut refused = Vec::new();
    for address in to {
        let reply = session.say(&format!("RCPT TO:<{address}>")).await.map_err(|fault| unsent(&fault))?;
        if reply.meaning() != Meaning::Done {
            refused.push((address, reply));
        }
    }
    Ok(refused)
}

/// The mail itself. From the last dot on nobody knows, until the reply says.
async fn send(session: &mut Session, lines: &[u8], timeouts: Timeouts) -> Submitted {
    let wire = session.wire();
    wire.begin(64 << 10);
    if let Err(fault) = wire.write(lines).await {
        return unsent(&fault);
    }
    wire.wait_longer(timeouts.delivery);
    // A fault of this write included: the dot may be there already.
    let sent = wire.write(b".\r\n").await;
    let reply = match sent {
        Ok(()) => session.reply().await,
        Err(fault) => Err(fault),
    };
    match reply {
        Ok(reply) => match reply.meaning() {
            Meaning::Done => Submitted::Accepted(reply.words()),
            Meaning::NotNow | Meaning::Never => refused(&reply),
            Meaning::GoOn | Meaning::Nothing => unknown(&reply.words()),
        },
        Err(fault) => unknown(&fault.to_string()),
    }
}

fn taken(reply: &Reply, meaning: Meaning) -> Result<(), Submitted> {
    match reply.meaning() == meaning {
        true => Ok(()),
        false => Err(refused(reply)),
    }
}

fn refused(reply: &Reply) -> Submitted {
    Submitted::Refused {
        why: format!("the server refuses the mail: {}", reply.words()),
        temporary: reply.meaning() != Meaning::Never,
        recipients: Vec::new(),
    }
}

fn recipients_refused(refused: &[(&Address, Reply)]) -> Submitted {
    let named: Vec<String> =
        refused.iter().take(5).map(|(address, reply)| format!("{address} ({})", reply.words())).collect();
    let others = refused.len().saturating_sub(named.len());
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    Submitted::Refused {
        why: format!("the server refuses {}{more}; nobody got the mail", named.join(", ")),
        temporary: refused.iter().all(|(_, reply)| reply.meaning() != Meaning::Never),
        recipients: refused.iter().map(|(address, _)| (*address).clone()).collect(),
    }
}

fn never(why: &str) -> Submitted {
    Submitted::Refused { why: why.to_owned(), temporary: false, recipients: Vec::new() }
}

/// A fault before the end of the mail.
pub(super) fn unsent(fault: &Fault) -> Submitted {
    let temporary = match fault {
        Fault::Unreachable(_) | Fault::Unknown(_) => true,
        Fault::Login(_) | Fault::Refused(_) | Fault::Marked(_) | Fault::Gone(_) | Fault::Nonsense(_) => false,
    };
    Submitted::Refused { why: format!("{fault}; the mail was not sent"), temporary, recipients: Vec::new() }
}

fn unknown(why: &str) -> Submitted {
    Submitted::Unknown(format!("the mail went out whole, but its reply did not come: {why}"))
}
