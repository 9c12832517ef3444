//! What names and schemas of tools speak of. They are a server's own words, so they never take a label off.

use serde_json::Value;

/// Words of things that not everybody may know.
const PRIVATE: &[&str] = &[
    "account",
    "accounts",
    "attachment",
    "attachments",
    "balance",
    "bank",
    "billing",
    "booking",
    "bookmark",
    "bookmarks",
    "calendar",
    "chat",
    "chats",
    "clipboard",
    "confidential",
    "contact",
    "contacts",
    "conversation",
    "conversations",
    "credential",
    "credentials",
    "crm",
    "customer",
    "customers",
    "database",
    "databases",
    "db",
    "desktop",
    "diary",
    "directory",
    "dm",
    "dms",
    "document",
    "documents",
    "draft",
    "drafts",
    "drive",
    "email",
    "emails",
    "employee",
    "employees",
    "env",
    "environment",
    "file",
    "files",
    "filesystem",
    "finance",
    "folder",
    "folders",
    "gmail",
    "health",
    "history",
    "hr",
    "inbox",
    "internal",
    "invoice",
    "invoices",
    "journal",
    "keychain",
    "keyring",
    "ledger",
    "mail",
    "mailbox",
    "mails",
    "medical",
    "meeting",
    "meetings",
    "memories",
    "memory",
    "message",
    "messages",
    "note",
    "notebook",
    "notes",
    "order",
    "orders",
    "password",
    "passwords",
    "patient",
    "patients",
    "payment",
    "payments",
    "payroll",
    "personal",
    "private",
    "profile",
    "record",
    "records",
    "repo",
    "repos",
    "repositories",
    "repository",
    "rows",
    "salary",
    "screenshot",
    "secret",
    "secrets",
    "sheet",
    "sheets",
    "slack",
    "spreadsheet",
    "sql",
    "table",
    "tables",
    "token",
    "tokens",
    "transaction",
    "transactions",
    "vault",
    "wallet",
    "workspace",
];

/// The same in a sentence, where others are in everybody's mouth.
const PRIVATE_IN_SENTENCES: &[&str] = &[
    "confidential",
    "credential",
    "credentials",
    "crm",
    "customer",
    "customers",
    "database",
    "diary",
    "email",
    "emails",
    "employee",
    "employees",
    "inbox",
    "internal",
    "mail",
    "mailbox",
    "mails",
    "password",
    "passwords",
    "patient",
    "patients",
    "payroll",
    "personal",
    "private",
    "salary",
    "secret",
    "secrets",
    "vault",
];

/// Arguments that are of this machine.
const PRIVATE_ARGUMENTS: &[&str] = &[
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filepath",
    "directory",
    "folder",
    "database",
    "sql",
    "table",
];

/// Verbs of tools that look something up.
const LOOKS: &[&str] = &[
    "browse",
    "check",
    "compare",
    "convert",
    "count",
    "describe",
    "diff",
    "explain",
    "fetch",
    "find",
    "get",
    "grep",
    "info",
    "inspect",
    "list",
    "load",
    "lookup",
    "look",
    "query",
    "read",
    "resolve",
    "retrieve",
    "search",
    "select",
    "show",
    "stat",
    "status",
    "summarize",
    "summary",
    "view",
    "whoami",
];

/// Verbs of tools that do something, also where they look like the others.
const DOES: &[&str] = &[
    "add",
    "append",
    "apply",
    "approve",
    "archive",
    "assign",
    "book",
    "broadcast",
    "buy",
    "cancel",
    "close",
    "comment",
    "commit",
    "copy",
    "create",
    "delete",
    "deploy",
    "drop",
    "edit",
    "email",
    "exec",
    "execute",
    "fork",
    "forward",
    "import",
    "insert",
    "invite",
    "invoke",
    "label",
    "mail",
    "merge",
    "message",
    "move",
    "notify",
    "open",
    "order",
    "patch",
    "pay",
    "ping",
    "post",
    "publish",
    "purchase",
    "push",
    "put",
    "react",
    "remember",
    "remove",
    "rename",
    "reply",
    "request",
    "reset",
    "review",
    "run",
    "save",
    "schedule",
    "send",
    "set",
    "share",
    "star",
    "store",
    "submit",
    "subscribe",
    "sync",
    "transfer",
    "trigger",
    "tweet",
    "unsubscribe",
    "update",
    "upload",
    "upsert",
    "write",
];

/// Arguments that say where something goes.
const ELSEWHERE: &[&str] = &[
    "address",
    "bcc",
    "callback",
    "cc",
    "channel",
    "destination",
    "domain",
    "email",
    "endpoint",
    "host",
    "hostname",
    "href",
    "link",
    "recipient",
    "recipients",
    "server",
    "site",
    "target",
    "to",
    "uri",
    "uris",
    "url",
    "urls",
    "webhook",
    "website",
];

/// Whether a tool, by its server's name, its own name, its arguments or its description, reads what not
/// everybody may know.
pub(super) fn speak_of_private(server: &str, definition: &Value) -> bool {
    let text = |field: &str| definition.get(field).and_then(Value::as_str).unwrap_or_default();
    let in_arguments =
        || arguments(definition).any(|name| words(name).any(|word| is_in(PRIVATE_ARGUMENTS, &word)));
    name_private(server)
        || name_private(text("name"))
        || name_private(text("title"))
        || words(text("description")).any(|word| is_in(PRIVATE_IN_SENTENCES, &word))
        || in_arguments()
}

/// Whether a name speaks of what not everybody may know.
pub(super) fn name_private(name: &str) -> bool {
    words(name).any(|word| is_in(PRIVATE, &word))
}

/// Whether a tool, by its name, only looks something up.
pub(super) fn looks_something_up(name: &str) -> bool {
    words(name).any(|word| is_in(LOOKS, &word))
}

/// Whether a tool's name begins with, or is, something that is done.
pub(super) fn does_something(name: &str) -> bool {
    let all: Vec<_> = words(name).collect();
    // `get_order` looks one up; `order_get` does too; `order` and `send_and_list` do not.
    let looks_first = all.first().is_some_and(|word| is_in(LOOKS, word));
    let looks_last = all.last().is_some_and(|word| is_in(LOOKS, word));
    let does_both = all.iter().any(|word| matches!(word.as_str(), "and" | "or" | "then"));
    (does_both || !(looks_first || looks_last)) && all.iter().any(|word| is_in(DOES, word))
}

/// Whether a tool's arguments say where it goes.
pub(super) fn goes_where_it_is_told(definition: &Value) -> bool {
    let schemas = definition.pointer("/inputSchema/properties").and_then(Value::as_object);
    let is_address = |schema: &Value| {
        let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
        ["uri", "url", "iri", "uri-reference", "email", "hostname"].contains(&format)
    };
    schemas.into_iter().flatten().any(|(_, schema)| is_address(schema))
        || arguments(definition).any(|name| words(name).any(|word| is_in(ELSEWHERE, &word)))
}

fn arguments(definition: &Value) -> impl Iterator<Item = &str> {
    let properties = definition.pointer("/inputSchema/properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(name, _)| name.as_str())
}

fn is_in(list: &[&str], word: &str) -> bool {
    list.contains(&word)
}

/// The words of a name or a sentence, in lower case: `readMailBox`, `read_mail-box` and `Read mail box.` alike.
fn words(text: &str) -> impl Iterator<Item = String> {
    const BYTES_MAX: usize = 4 * 1024;
    let text = &text[..text.floor_char_boundary(BYTES_MAX)];
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut was_small = false;
    for c in text.chars() {
        if c.is_uppercase() && was_small {
            spaced.push(' ');
        }
        was_small = c.is_lowercase() || c.is_ascii_digit();
        spaced.extend(c.to_lowercase());
    }
    let words: Vec<_> = spaced
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    words.into_iter()
}
