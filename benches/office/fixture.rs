//! Dovecot's mailboxes, filled by writing its maildirs: a delivery for each mail would take many minutes.

use std::fs::{self, File};
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::time::SystemTime;

use helve_office::imap::ImapAccount;
use helve_office::wire::{Login, Security, Server};
use helve_testkit::OfficeServers;

use crate::made_up::{self, Words};

/// Puts the mails of these numbers into somebody's inbox.
pub(crate) fn deliver(servers: &OfficeServers, user: &str, numbers: Range<usize>, words: &Words) {
    let mail = servers.folder().join("mail");
    // Dovecot writes its index as this user; the mails themselves it only reads.
    let owner = fs::metadata(&mail).unwrap();
    let home = mail.join(format!("{user}@example.test"));
    let maildir = home.join("Maildir");
    for folder in [home, maildir.clone(), maildir.join("cur"), maildir.join("new"), maildir.join("tmp")] {
        fs::create_dir_all(&folder).unwrap();
        chown(&folder, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    for number in numbers {
        let mail = made_up::mail(number, words);
        let seconds = mail.at.as_second();
        let name = format!("{seconds}.M{number}.bench:2,{}", if mail.seen { "S" } else { "" });
        let mut file = File::create(maildir.join("cur").join(name)).unwrap();
        file.write_all(mail.message.as_bytes()).unwrap();
        // When the server got it.
        file.set_modified(SystemTime::from(mail.at)).unwrap();
    }
}

/// Somebody's account there, without TLS, so that what it is compared with has the same wire.
pub(crate) fn account(servers: &OfficeServers, user: &str) -> ImapAccount {
    let server = Server::new("127.0.0.1", servers.port("/imap/port"), Security::PlainOnThisMachine);
    let login =
        Login::Password { user: format!("{user}@example.test"), password: format!("{user}-pw").into() };
    ImapAccount::new(server, login)
}
