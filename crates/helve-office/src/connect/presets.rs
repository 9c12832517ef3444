//! Providers whose servers and OAuth endpoints are known: plain data.

use crate::wire::{Security, Server};

/// A mail provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What people call it.
    pub name: &'static str,
    /// Domains of its own addresses.
    domains: &'static [&'static str],
    /// How the names of its mail exchangers end: by these it is known where a company has its own domain.
    exchangers: &'static [&'static str],
    imap: (&'static str, u16, Security),
    smtp: (&'static str, u16, Security),
    /// Where it takes OAuth.
    pub oauth: Option<OauthEndpoints>,
    /// What a person has to do there first, where a password is used.
    pub password_advice: &'static str,
}

/// Where a provider gives out tokens, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OauthEndpoints {
    /// Where a person agrees.
    pub authorize: &'static str,
    /// Where codes and refresh tokens become access tokens.
    pub token: &'static str,
    /// What has to be agreed to for IMAP and SMTP.
    pub mail_scopes: &'static [&'static str],
    /// What has to be agreed to for CalDAV and CardDAV; none where it does not speak them.
    pub calendar_and_contacts_scopes: &'static [&'static str],
}

/// Every provider that is known.
pub const PRESETS: [Preset; 3] = [
    Preset {
        name: "Google",
        domains: &["gmail.com", "googlemail.com"],
        exchangers: &[".google.com", ".googlemail.com"],
        imap: ("imap.gmail.com", 993, Security::Tls),
        smtp: ("smtp.gmail.com", 465, Security::Tls),
        oauth: Some(OauthEndpoints {
            authorize: "https://accounts.google.com/o/oauth2/v2/auth",
            token: "https://oauth2.googleapis.com/token",
            mail_scopes: &["https://mail.google.com/"],
            calendar_and_contacts_scopes: &[
                "https://www.googleapis.com/auth/calendar",
                "https://www.googleapis.com/auth/carddav",
            ],
        }),
        password_advice: "make an app password at https://myaccount.google.com/apppasswords",
    },
    Preset {
        name: "Microsoft",
        domains: &["outlook.com", "hotmail.com", "live.com", "msn.com"],
        exchangers: &[".protection.outlook.com"],
        imap: ("outlook.office365.com", 993, Security::Tls),
        smtp: ("smtp.office365.com", 587, Security::StartTls),
        oauth: Some(OauthEndpoints {
            authorize: "https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
            token: "https://login.microsoftonline.com/common/oauth2/v2.0/token",
            mail_scopes: &[
                "https://outlook.office.com/IMAP.AccessAsUser.All",
                "https://outlook.office.com/SMTP.Send",
                "offline_access",
            ],
            calendar_and_contacts_scopes: &[],
        }),
        password_advice: "Microsoft takes no passwords for mail programs; connect by OAuth",
    },
    Preset {
        name: "iCloud",
        domains: &["icloud.com", "me.com", "mac.com"],
        exchangers: &[".mail.icloud.com"],
        imap: ("imap.mail.me.com", 993, Security::Tls),
        smtp: ("smtp.mail.me.com", 587, Security::StartTls),
        oauth: None,
        password_advice: "make an app-specific password at https://account.apple.com",
    },
];

impl Preset {
    /// The provider of addresses in a domain, by its name alone.
    pub fn of_domain(domain: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.domains.iter().any(|own| own.eq_ignore_ascii_case(domain)))
    }

    /// The provider that a mail exchanger belongs to.
    pub fn of_exchanger(host: &str) -> Option<&'static Self> {
        let host = host.to_ascii_lowercase();
        PRESETS.iter().find(|preset| preset.exchangers.iter().any(|end| host.ends_with(end)))
    }

    /// Where its mails are.
    pub fn imap(&self) -> Server {
        Server::new(self.imap.0, self.imap.1, self.imap.2)
    }

    /// Where it takes mails.
    pub fn smtp(&self) -> Server {
        Server::new(self.smtp.0, self.smtp.1, self.smtp.2)
    }
}
