//! What is searched in mails, and how a search is written for SQLite's full-text index.

use rusqlite::{Transaction, params};
use unicode_normalization::UnicodeNormalization;

use super::mails::{MailPerson, NewMailRow};

/// A word of fewer letters is looked for as it stands, a longer one also as the beginning of one.
const PREFIX_CHARS_MIN: usize = 4;

pub(super) fn index(db: &Transaction<'_>, seq: i64, mail: &NewMailRow) -> rusqlite::Result<()> {
    let of = |wanted: fn(&str) -> bool| {
        let people = mail.people.iter().filter(|person| wanted(&person.role));
        folded(&people.map(shown).collect::<Vec<_>>().join(" , "))
    };
    db.prepare_cached(
        "INSERT INTO mails_text (rowid, subject, sender, recipients, body) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        seq,
        folded(&mail.subject),
        of(|role| role == "from"),
        of(|role| role != "from"),
        folded(&mail.body)
    ])?;
    Ok(())
}

fn shown(person: &MailPerson) -> String {
    format!("{} {}", person.name.as_deref().unwrap_or_default(), person.address)
}

/// A text as it is indexed and looked for: one form for each letter, marks of Arabic and Hebrew left out, and spaces
/// around each letter of a script that has none.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len() + text.len() / 4);
    for c in text.nfkc() {
        match c {
            // Points above and below letters, and the stroke that makes a word longer.
            '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}' => {
            }
            '\u{6d6}'..='\u{6ed}' => {}
            'أ' | 'إ' | 'آ' | 'ٱ' => folded.push('ا'),
            c if is_spaceless(c) => folded.extend([' ', c, ' ']),
            c => folded.push(c),
        }
    }
    folded
}

/// Letters of scripts in which words are not parted by spaces, or grow endings (Korean).
fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Words that have to be there, as the index takes them. None: there is nothing to look for in them.
///
/// INVARIANT: every word is quoted, so that none of its characters means anything to SQLite.
pub(super) fn expression(columns: &[(&str, &[String])]) -> Option<String> {
    let mut terms = Vec::new();
    for (column, words) in columns {
        for word in *words {
            if !word.chars().any(char::is_alphanumeric) {
                continue;
            }
            let quoted = quoted(word);
            terms.push(if column.is_empty() { quoted } else { format!("{column} : {quoted}") });
        }
    }
    (!terms.is_empty()).then(|| terms.join(" AND "))
}

fn quoted(word: &str) -> String {
    let folded = folded(word);
    let last = word.chars().last().unwrap_or(' ');
    let grows = last.is_alphanumeric() && !is_spaceless(last) && word.chars().count() >= PREFIX_CHARS_MIN;
    let star = if grows { " *" } else { "" };
    format!("\"{}\"{star}", folded.trim().replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_letters_without_spaces_get_some() {
        let words = |text: &str| expression(&[("", &[text.to_owned()])]);
        assert_eq!(words("budget-2026").unwrap(), "\"budget-2026\" *");
        assert_eq!(words("c++").unwrap(), "\"c++\"");
        assert_eq!(words("say \"OR\"").unwrap(), "\"say \"\"OR\"\"\"");
        assert_eq!(words("会議").unwrap(), "\"会  議\"");
        assert_eq!(words("مَرحبا"), words("مرحبا"));
        assert_eq!(words("+++"), None);
        let both = expression(&[("sender", &["ada".to_owned()]), ("", &["x".to_owned()])]);
        assert_eq!(both.unwrap(), "sender : \"ada\" AND \"x\"");
    }
}
