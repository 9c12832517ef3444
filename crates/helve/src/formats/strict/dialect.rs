//! What each provider's strict mode takes.

/// One provider's rules.
pub(super) struct Dialect {
    /// Whose, for messages.
    pub(super) provider: &'static str,
    pub(super) optional: Optional,
    /// Keywords on values that it takes as they are.
    pub(super) keywords: &'static [&'static str],
    /// Formats of strings that it knows.
    pub(super) formats: &'static [&'static str],
    /// The largest `minItems` that it takes.
    pub(super) min_items_max: u64,
    pub(super) recursion: Recursion,
    pub(super) limits: Limits,
}

/// How a field that may be absent is written.
#[derive(PartialEq, Eq)]
pub(super) enum Optional {
    /// Required, with null for absent.
    Nullable,
    /// Left out of `required`, as the tool declares it.
    Kept,
}

/// Whether a schema may refer to itself.
#[derive(PartialEq, Eq)]
pub(super) enum Recursion {
    Allowed,
    Refused,
}

/// Bounds on one schema.
pub(super) struct Limits {
    pub(super) properties: usize,
    pub(super) levels: usize,
    pub(super) enum_values: usize,
    pub(super) chars: usize,
}

pub(super) const OPENAI: Dialect = Dialect {
    provider: "OpenAI",
    optional: Optional::Nullable,
    keywords: &[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
        "pattern",
    ],
    formats: &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
    min_items_max: u64::MAX,
    recursion: Recursion::Allowed,
    limits: Limits { properties: 5_000, levels: 10, enum_values: 1_000, chars: 120_000 },
};

pub(super) const ANTHROPIC: Dialect = Dialect {
    provider: "Anthropic",
    optional: Optional::Kept,
    keywords: &["minItems"],
    formats: &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"],
    min_items_max: 1,
    recursion: Recursion::Refused,
    // It documents none for one schema; these keep a grammar from growing without bound.
    limits: Limits { properties: 1_000, levels: 32, enum_values: 1_000, chars: 120_000 },
};

/// Formats that our validator checks. A provider that does not know one cannot hold a model to
/// it; any other format is only a remark and may be dropped.
pub(super) const CHECKED_FORMATS: [&str; 19] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uuid",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

/// Keywords that say something about a value without deciding whether it fits.
pub(super) fn is_remark(keyword: &str) -> bool {
    const REMARKS: [&str; 12] = [
        "title",
        "description",
        "default",
        "examples",
        "$comment",
        "$schema",
        "$id",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentMediaType",
        "contentEncoding",
    ];
    REMARKS.contains(&keyword) || keyword.starts_with("x-")
}

/// Whether a pattern keeps to what a grammar can express: no looking around, no going back.
pub(super) fn is_regular(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find(['\\', '(']) {
        let token = &rest[at..];
        rest = if let Some(escaped) = token.strip_prefix('\\') {
            if escaped.starts_with(['1', '2', '3', '4', '5', '6', '7', '8', '9', 'b', 'B', 'k']) {
                return false;
            }
            // Past the escaped character too: `\\(` is a backslash and a group.
            escaped.get(escaped.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default()
        } else {
            if token.starts_with("(?") && !token.starts_with("(?:") {
                return false;
            }
            &token[1..]
        };
    }
    true
}
