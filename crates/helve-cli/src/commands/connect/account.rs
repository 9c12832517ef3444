//! What every account has: a name, a person, an owner; and how it is kept.

use helve_host::wire;
use helve_host::wire::office::OfficeSecrets;
use helve_office::Office;
use helve_office::connect::{AccountSettings, LOCAL, SecretPlace};
use helve_office::text::{Address, Mailbox};
use helve_store::office::AccountRow;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::ask;
use crate::app::App;
use crate::commands::caller;
use crate::commands::office::disconnect::say_left;
use crate::commands::office::unusable;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

#[derive(Debug, clap::Args)]
pub(super) struct AccountArgs {
    /// Your mail address there
    address: Option<String>,
    /// A short name for the account, such as `work` [default: from the address]
    #[arg(long, value_name = "NAME", value_parser = id)]
    id: Option<String>,
    /// Your name, as others see it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The name to log in with [default: the address]
    #[arg(long, value_name = "NAME")]
    login: Option<String>,
    /// The principal whose calls alone may use the account [default: everybody's]
    #[arg(long, value_name = "PRINCIPAL", value_parser = caller::name)]
    owner: Option<String>,
    /// Use what was found, without a question
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// A short name, as typed.
fn id(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    match !text.is_empty() && text.len() <= 40 && text.chars().all(is_plain) && text != LOCAL {
        true => Ok(text.to_owned()),
        false => {
            Err("it has lower-case letters, digits, `-`, `_` and `.`, 40 at most, and is not `local`"
                .to_owned())
        }
    }
}

/// The same, checked.
pub(super) struct NewAccount {
    pub(super) id: String,
    pub(super) person: Mailbox,
    pub(super) login: String,
    owner: Option<String>,
    /// The account of this name that is there and connected again now.
    before: Option<AccountRow>,
}

impl AccountArgs {
    pub(super) async fn resolve(
        self,
        kind: &str,
        office: &Office,
        app: &mut App<'_>,
    ) -> Result<NewAccount, Failure> {
        let address = ask::text(self.address, "your mail address", "the first argument", app)?;
        let wrong = |error: &dyn std::fmt::Display| Failure::usage(error.to_string());
        let address = Address::new(&address).map_err(|error| wrong(&error))?;
        let person = Mailbox::new(self.name.as_deref(), address).map_err(|error| wrong(&error))?;
        // It makes the file and the account `local`, where they are not there yet.
        office.accounts();
        let rows = office.db().accounts().await.map_err(|error| unusable(&error))?;
        let is_same =
            |row: &&AccountRow| row.kind == kind && row.address.as_deref() == Some(person.address().as_str());
        let id = match &self.id {
            Some(id) => id.clone(),
            None => rows.iter().find(is_same).map_or_else(|| free_id(&person, &rows), |row| row.id.clone()),
        };
        let before = rows.into_iter().find(|row| row.id == id);
        if let Some(other) = before.as_ref().filter(|row| !is_same(row)) {
            let of = other.address.as_deref().unwrap_or(&other.kind);
            return Err(Failure::usage(format!("there is an account `{id}` already, of {of}"))
                .hint(format!("take another name with --id, or `helve office disconnect {id}` first")));
        }
        if let Some(before) = before.as_ref().filter(|row| self.owner.is_some() && row.owner != self.owner) {
            let owner = before.owner.as_deref().unwrap_or("everybody");
            return Err(Failure::usage(format!("the account `{id}` belongs to {owner}"))
                .hint(format!("`helve office disconnect {id}` first, then connect it anew")));
        }
        let login = self.login.unwrap_or_else(|| person.address().to_string());
        Ok(NewAccount { id, person, login, owner: self.owner, before })
    }
}

/// A name from the address that no account has.
fn free_id(person: &Mailbox, rows: &[AccountRow]) -> String {
    let label = person.address().domain().split('.').next().unwrap_or("mail").to_ascii_lowercase();
    let label = if label == LOCAL { format!("{label}-mail") } else { label };
    let is_free = |id: &String| rows.iter().all(|row| row.id != *id);
    (1..).map(|n| if n == 1 { label.clone() } else { format!("{label}-{n}") }).find(is_free).unwrap_or(label)
}

impl NewAccount {
    /// Keeps the account, in place of itself where it was connected before. What is left of the secret that it had then,
    /// where that cannot be forgotten.
    pub(super) async fn keep(
        &self,
        settings: &AccountSettings,
        office: &Office,
        secrets: &OfficeSecrets,
    ) -> Result<Option<Failure>, Failure> {
        // From here on it is known whose password the file has, so no tool may read it.
        if let Some(SecretPlace::File(file)) = settings.auth().place() {
            wire::secret_files::remember(file)?;
        }
        let failed = |error| unusable(&error);
        let text = serde_json::to_string(settings).map_err(|error| Failure::failed(error.to_string()))?;
        if let Some(before) = &self.before {
            office.db().change_account(&self.id, text).await.map_err(failed)?;
            let old: Option<AccountSettings> = serde_json::from_str(&before.settings).ok();
            if old.is_some_and(|old| old.auth() == settings.auth()) {
                return Ok(None);
            }
            return Ok(secrets.forget_all_of(&self.id, &before.settings).await.err().map(Failure::from));
        }
        let row = AccountRow {
            id: self.id.clone(),
            kind: settings.kind().to_owned(),
            address: Some(self.person.address().to_string()),
            name: self.person.name().map(str::to_owned),
            owner: self.owner.clone(),
            settings: text,
            created_at: Timestamp::now(),
            synced_at: None,
            trouble: None,
        };
        match office.db().add_account(row).await.map_err(failed)? {
            true => Ok(None),
            false => Err(Failure::failed(format!("another process connected `{}` meanwhile", self.id))),
        }
    }

    /// Says what was connected, and what to do next.
    pub(super) fn tell(
        &self,
        settings: &AccountSettings,
        found: &[(&str, String)],
        left: Option<&Failure>,
        app: &mut App<'_>,
    ) -> anyhow::Result<Exit> {
        let again = self.before.is_some();
        if let Some(left) = left {
            say_left(left, app)?;
        }
        if app.ui.is_json() {
            let found: serde_json::Map<String, Value> =
                found.iter().map(|(name, what)| ((*name).to_owned(), json!(what))).collect();
            app.ui.json(&json!({
                "connected": self.id, "kind": settings.kind(), "address": self.person.address().to_string(),
                "owner": self.owner, "again": again, "found": found, "settings": settings,
            }))?;
            return Ok(Exit::Done);
        }
        let paint = app.ui.paint();
        let word = if again { "connected again" } else { "connected" };
        app.ui.line(format!(
            "{} {word} {} as {}",
            paint.good("✓"),
            self.person.address(),
            paint.bold(&self.id)
        ))?;
        for (name, what) in found {
            app.ui.line(format!("  {name:<10} {}", escape::one_line(what, 200)))?;
        }
        app.ui.note(format!(
            "helve office sync {}  fetches what is there · helve office accounts  shows it",
            self.id
        ))?;
        Ok(Exit::Done)
    }
}
