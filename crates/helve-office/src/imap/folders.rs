//! The folders of an account, and what each is for.

use super::command::Command;
use super::response::Value;
use super::session::{ANSWER_BYTES_MAX, Session};
use super::utf7;
use crate::account::{Fault, Folder, FolderRole};

/// Most folders that are looked at.
const FOLDERS_MAX: usize = 5000;

/// What a folder is marked with when it is for something (RFC 6154).
const MARKS: [(&str, FolderRole); 6] = [
    ("\\Drafts", FolderRole::Drafts),
    ("\\Sent", FolderRole::Sent),
    ("\\Archive", FolderRole::Archive),
    ("\\Junk", FolderRole::Junk),
    ("\\Trash", FolderRole::Trash),
    ("\\All", FolderRole::Everything),
];

/// What it is called where nothing is marked, in small letters.
const NAMES: [(FolderRole, &[&str]); 5] = [
    (
        FolderRole::Drafts,
        &["drafts", "draft", "entwürfe", "brouillons", "borradores", "bozze", "concepten", "下書き"],
    ),
    (
        FolderRole::Sent,
        &[
            "sent",
            "sent items",
            "sent messages",
            "sent mail",
            "sent-mail",
            "gesendet",
            "gesendete objekte",
            "gesendete elemente",
            "envoyés",
            "éléments envoyés",
            "enviados",
            "inviati",
            "posta inviata",
            "verzonden items",
            "送信済み",
            "送信済みメール",
        ],
    ),
    (FolderRole::Archive, &["archive", "archives", "archiv", "archivo", "アーカイブ"]),
    (
        FolderRole::Junk,
        &["junk", "spam", "junk e-mail", "junk email", "junk-e-mail", "bulk mail", "迷惑メール"],
    ),
    (
        FolderRole::Trash,
        &[
            "trash",
            "deleted items",
            "deleted messages",
            "papierkorb",
            "gelöschte elemente",
            "corbeille",
            "papelera",
            "cestino",
            "prullenbak",
            "ごみ箱",
            "ゴミ箱",
        ],
    ),
];

/// All folders that can be opened.
pub(super) async fn list(session: &mut Session) -> Result<Vec<Folder>, Fault> {
    let mut command = Command::new("LIST \"\" \"*\"");
    if session.can("LIST-EXTENDED") && session.can("SPECIAL-USE") {
        command = command.then(" RETURN (SPECIAL-USE)");
    }
    let data = session.run(command, ANSWER_BYTES_MAX).await?.ok("the folders cannot be listed")?;
    let listed: Vec<Listed> = data.iter().filter_map(|data| Listed::read(data)).collect();
    if listed.len() > FOLDERS_MAX {
        return Err(Fault::Refused(format!("the account has more than {FOLDERS_MAX} folders")));
    }
    Ok(with_roles(listed))
}

struct Listed {
    folder: Folder,
    last_name: String,
    marks: Vec<String>,
}

impl Listed {
    /// `LIST (marks) delimiter name`.
    fn read(data: &[Value]) -> Option<Self> {
        let [list, marks, delimiter, path] = data.get(..4)? else { return None };
        if !list.is("LIST") {
            return None;
        }
        let marks: Vec<String> = marks.list()?.iter().filter_map(Value::word).map(str::to_owned).collect();
        let path = std::str::from_utf8(path.text()?).ok()?.to_owned();
        // Those with `\Flagged` or `\Important` show again what other folders have.
        let hidden = ["\\Noselect", "\\NonExistent", "\\Flagged", "\\Important"];
        let is_hidden = |mark: &String| hidden.iter().any(|hidden| hidden.eq_ignore_ascii_case(mark));
        if marks.iter().any(is_hidden) || path.is_empty() || path.chars().any(char::is_control) {
            return None;
        }
        let name = utf7::decode(&path).unwrap_or_else(|| path.clone());
        let delimiter = delimiter.text().and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        let last_name = match delimiter {
            "" => name.to_lowercase(),
            delimiter => name.rsplit(delimiter).next().unwrap_or_default().to_lowercase(),
        };
        Some(Self { folder: Folder { path, name, role: None }, last_name, marks })
    }

    fn marked(&self) -> Option<FolderRole> {
        if self.folder.path.eq_ignore_ascii_case("INBOX") {
            return Some(FolderRole::Inbox);
        }
        let has = |mark: &str| self.marks.iter().any(|found| found.eq_ignore_ascii_case(mark));
        MARKS.iter().find(|(mark, _)| has(mark)).map(|(_, role)| *role)
    }

    fn named(&self, role: FolderRole) -> bool {
        NAMES.iter().any(|(of, names)| *of == role && names.contains(&self.last_name.as_str()))
    }
}

/// Each role goes to one folder: the marked one, else the first of that name.
fn with_roles(mut listed: Vec<Listed>) -> Vec<Folder> {
    for role in FolderRole::ALL {
        let marked = listed.iter().position(|listed| listed.marked() == Some(role));
        let named = || listed.iter().position(|listed| listed.marked().is_none() && listed.named(role));
        if let Some(at) = marked.or_else(named) {
            listed[at].folder.role = Some(role);
        }
    }
    listed.into_iter().map(|listed| listed.folder).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::response::{Part, Response, read};
    use super::*;

    fn roles(lines: &[&str]) -> Vec<(String, Option<FolderRole>)> {
        let listed = lines.iter().filter_map(|line| {
            let text = Bytes::copy_from_slice(format!("* LIST {line}").as_bytes());
            let Response::Data(data) = read(&[Part::Text(text)]) else { panic!("{line}") };
            Listed::read(&data)
        });
        with_roles(listed.collect()).into_iter().map(|folder| (folder.name, folder.role)).collect()
    }

    #[test]
    fn marks_count_before_names() {
        let found = roles(&[
            r#"(\HasNoChildren) "/" Sent"#,
            r#"(\HasNoChildren \Sent) "/" "Sent Items""#,
            r#"(\HasNoChildren) "." "INBOX.Entw&APw-rfe""#,
            r#"(\Noselect) "/" "[Gmail]""#,
            r#"(\All) "/" "[Gmail]/All Mail""#,
            r#"(\Important) "/" "[Gmail]/Important""#,
            r#"() NIL inbox"#,
        ]);
        let wanted = [
            ("Sent", None),
            ("Sent Items", Some(FolderRole::Sent)),
            ("INBOX.Entwürfe", Some(FolderRole::Drafts)),
            ("[Gmail]/All Mail", Some(FolderRole::Everything)),
            ("inbox", Some(FolderRole::Inbox)),
        ];
        assert_eq!(found, wanted.map(|(name, role)| (name.to_owned(), role)));
    }
}
