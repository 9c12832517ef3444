//! The mail as a person sees it who is asked about it, and a fingerprint of all that goes out.

use helve::Preview;
use helve::json::sha256_hex;
use serde_json::json;

use super::plan::{FILES_MAX, Plan};
use super::shown::{id_of, version_of};
use crate::text::{MailText, Mailbox, MessageId, Recipients};

/// A person can approve only what they see, so the longest mail is shown whole: no character has more than four bytes,
/// and each line gets one more.
const _: () = assert!(
    2 * 4 * MailText::CHARS_MAX + FILES_MAX * 1_024 + 2 * Recipients::MAX * 1_024 + (16 << 10)
        <= Preview::TEXT_BYTES_MAX
);

impl Plan {
    /// What a person approves.
    pub(super) fn preview(&self) -> Preview {
        Preview::new(self.shown()).with_fingerprint(self.fingerprint())
    }

    /// The exact mail as text.
    fn shown(&self) -> String {
        let mut text = format!("From: {}\n", self.from);
        for (name, list) in self.lists() {
            if !list.is_empty() {
                text.push_str(&format!("{name}: {}\n", list.join(",\n    ")));
            }
        }
        if !self.reply_to.is_empty() {
            text.push_str(&format!("Reply-To: {}\n", self.answers_to().join(",\n    ")));
        }
        text.push_str(&format!("Subject: {}\n", self.subject));
        for (name, value) in &self.kept {
            text.push_str(&format!("{name}: {}\n", value.as_str()));
        }
        for file in &self.files {
            let (name, kind, bytes) = (&file.file.name, &file.file.media_type, file.file.bytes.len());
            text.push_str(&format!("Attachment: {name} ({kind}, {bytes} bytes, SHA-256 {})\n", file.sha256));
        }
        if self.account.kind == "embedded" {
            text.push_str("Note: no mail account is connected; it stays in the local Sent folder\n");
        }
        text.push_str(&format!("\n{}", indented(self.text.as_str())));
        if let Some(html) = &self.html {
            let html = indented(html.as_str());
            text.push_str(&format!("\n\n----- the same as HTML (its source) -----\n{html}"));
        }
        text
    }

    /// A digest of everything that goes out, and of the draft it is made of.
    pub(super) fn fingerprint(&self) -> String {
        let files = self.files.iter().map(|file| {
            json!([file.file.name.as_str(), file.file.media_type, file.sha256, file.file.content_id])
        });
        let kept: Vec<_> = self.kept.iter().map(|(name, value)| [name, value.as_str()]).collect();
        let references: Vec<&str> = self.thread.references.iter().map(MessageId::as_str).collect();
        let all = json!({
            "account": self.account.id,
            "from": self.from.to_string(),
            "lists": self.lists().map(|(_, list)| list),
            "reply_to": self.answers_to(),
            "kept": kept,
            "subject": self.subject.as_str(),
            "text": self.text.as_str(),
            "html": self.html.as_ref().map(|html| html.as_str()),
            "files": files.collect::<Vec<_>>(),
            "in_reply_to": self.thread.in_reply_to.as_ref().map(MessageId::as_str),
            "references": references,
            "draft": self.base.as_ref().map(|base| [id_of(&base.row), version_of(&base.row), sha256_hex(&base.bytes)]),
        });
        sha256_hex(all.to_string().as_bytes())
    }

    fn answers_to(&self) -> Vec<String> {
        self.reply_to.iter().map(Mailbox::to_string).collect()
    }

    fn lists(&self) -> [(&'static str, Vec<String>); 3] {
        [
            ("To", self.addresses(Recipients::to)),
            ("Cc", self.addresses(Recipients::cc)),
            ("Bcc", self.addresses(Recipients::bcc)),
        ]
    }
}

/// Lines of a mail with a space before each: none is taken for a header, or for a line of a diff.
fn indented(text: &str) -> String {
    text.split_inclusive('\n').map(|line| format!(" {line}")).collect()
}
