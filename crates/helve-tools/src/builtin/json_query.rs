//! `json-query`: the parts of a JSON document that a JSONPath (RFC 9535) selects.
//!
//! The evaluator cannot be stopped once it runs, and short queries can be endless work:
//! `$..*..*..*`, `$[0,0][0,0]…`, `$[?count($..*) > 1]`. So its work is bounded from above first,
//! by [`cost`], and a query that may be too dear is refused.

use helve::json::{JsonLimits, check, parse};
use helve::{Context, Tool, ToolBuilder, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_json_path::JsonPath;

use super::wrong_argument;

/// Longest query that is parsed.
const QUERY_BYTES_MAX: usize = 500;
/// Deepest nesting of brackets and parentheses; the parser of queries backtracks at each.
const QUERY_DEPTH_MAX: usize = 6;
/// Most visits to a part of the data. Takes some tenths of a second, a second at the very worst.
const VISITS_MAX: u64 = 1_000_000;
/// What a regular expression costs, in visits, once for itself and once for each class such as
/// `\w`: it is compiled anew for every value.
const REGEX_VISITS: u64 = 300;
/// Most bytes of matches that are returned.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of text that cost as much to compare as one value does to visit.
const BYTES_PER_VISIT: usize = 64;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The data: any JSON value, or a string that holds JSON text.
    data: Value,
    /// A JSONPath query by RFC 9535, such as `$.orders[?@.total > 100].id` or `$..name`.
    #[schemars(length(min = 1, max = 500))]
    query: String,
    /// How many matches to return.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 1000))]
    limit: u16,
}

fn default_limit() -> u16 {
    100
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// How many parts of the data match, returned or not.
    count: usize,
    /// The matches, in the order in which the query finds them.
    matches: Vec<Match>,
    /// Whether some matches are left out, for `limit` or for size.
    truncated: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Match {
    /// Where it is, as a normalised path such as `$['orders'][0]['id']`.
    path: String,
    /// What is there.
    value: Value,
}

pub(super) fn tool() -> ToolBuilder {
    Tool::function(
        "json-query",
        "Selects parts of a JSON document with a JSONPath query (RFC 9535): filters, slices, wildcards and \
         descent. Returns the matching values with their paths, and how many there are.",
        |input: Input, _: Context| async move { answer(&input) },
    )
    .when_to_use(
        "To find, filter or count values in a larger JSON document exactly. Not needed for a value that \
         you can see at a glance.",
    )
    .example_call(
        "Which of these books cost less than 10?",
        json!({ "data": { "books": [{ "title": "A", "price": 8 }, { "title": "B", "price": 12 }] },
                "query": "$.books[?@.price < 10].title" }),
    )
    .example_call(
        "List every name in this JSON text.",
        json!({ "data": "{\"team\": [{\"name\": \"Ada\"}, {\"name\": \"Bob\"}]}", "query": "$..name", "limit": 10 }),
    )
}

fn answer(input: &Input) -> Result<Output, ToolError> {
    let read;
    let data = match &input.data {
        Value::String(text) => {
            read = read_text(text)?;
            &read
        }
        other => {
            check(other, JsonLimits::default())
                .map_err(|error| wrong_argument("data", "JSON within limits", "", &error.to_string()))?;
            other
        }
    };
    let query = read_query(&input.query, data)?;
    Ok(collect(&query, data, usize::from(input.limit)))
}

fn read_text(text: &str) -> Result<Value, ToolError> {
    parse(text.as_bytes(), JsonLimits::default()).map_err(|error| {
        let problem = format!("as a string it must hold JSON text; {error}");
        wrong_argument("data", "a JSON value, or a string with JSON text", text, &problem)
    })
}

/// A query that is valid and that the data allows to be run.
fn read_query(text: &str, data: &Value) -> Result<JsonPath, ToolError> {
    let refuse = |problem: &str| wrong_argument("query", "a JSONPath query (RFC 9535)", text, problem);
    if text.len() > QUERY_BYTES_MAX {
        return Err(refuse("it is longer than 500 bytes; use a simpler query"));
    }
    let shape = Shape::of(text);
    if shape.depth > QUERY_DEPTH_MAX {
        return Err(refuse("its brackets are nested deeper than 6 levels; use a simpler query"));
    }
    let path = JsonPath::parse(text).map_err(|error| {
        let position = text.get(..error.position()).map_or(0, |before| before.chars().count()) + 1;
        refuse(&format!(
            "position {position}: {}; write it like `$.orders[?@.total > 100].id`",
            error.message()
        ))
    })?;
    if shape.regexes > 0 && (shape.dear_regex || text.contains('{')) {
        return Err(refuse("a regular expression must be a literal without counted repetition (`{`)"));
    }
    if cost(&shape, &Size::of(data)) > VISITS_MAX {
        return Err(refuse(
            "it could take too long on this data; use fewer `..`, `$` within filters, regular \
             expressions and lists of selectors, or less data",
        ));
    }
    Ok(path)
}

fn collect(query: &JsonPath, data: &Value, limit: usize) -> Output {
    let located = query.query_located(data);
    let count = located.len();
    let mut matches = Vec::new();
    let mut bytes = 0;
    for node in located.iter().take(limit) {
        let path = node.location().to_string();
        bytes += path.len() + text_bytes(node.node(), OUTPUT_BYTES_MAX);
        if bytes > OUTPUT_BYTES_MAX {
            break;
        }
        matches.push(Match { path, value: node.node().clone() });
    }
    Output { count, truncated: matches.len() < count, matches }
}

/// About how long a value is as text; stops counting beyond `enough`.
fn text_bytes(value: &Value, enough: usize) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().fold(2, |sum, item| match sum > enough {
            true => sum,
            false => sum + 1 + text_bytes(item, enough),
        }),
        Value::Object(fields) => fields.iter().fold(2, |sum, (key, item)| match sum > enough {
            true => sum,
            false => sum + 4 + key.len() + text_bytes(item, enough),
        }),
    }
}

/// What a query is made of, counted without understanding it.
#[derive(Debug, Default)]
struct Shape {
    /// Deepest nesting of brackets and parentheses.
    depth: usize,
    /// Steps: `.` and `[`.
    steps: u64,
    /// Recursive descents: `..`.
    descents: u32,
    /// Filters, each `?`.
    filters: u32,
    /// `$` within filters.
    roots: u32,
    /// Calls of `match` and `search`, and backslashes, which can each stand for a large class.
    regexes: u32,
    backslashes: u64,
    /// Whether a regular expression comes from the data, where nobody knows what it costs.
    dear_regex: bool,
    /// The product of the lengths of all lists.
    list_product: u64,
}

impl Shape {
    fn of(query: &str) -> Self {
        let mut shape = Self { list_product: 1, ..Self::default() };
        let mut open: Vec<List> = Vec::new();
        let mut quote = None;
        let mut previous = ' ';
        let mut escaped = false;
        for (at, c) in query.char_indices() {
            shape.backslashes += u64::from(c == '\\');
            if let Some(end) = quote {
                quote = quote.filter(|_| c != end || escaped);
                escaped = c == '\\' && !escaped;
                continue;
            }
            match c {
                '\'' | '"' => quote = Some(c),
                '[' | '(' => shape.enter(&mut open, query[..at].trim_end()),
                ']' | ')' => {
                    let length = open.pop().map_or(1, |list| list.length);
                    shape.list_product = shape.list_product.saturating_mul(length);
                }
                ',' => shape.next_in(open.last_mut(), query[at + 1..].trim_start()),
                '.' if previous == '.' => shape.descents += 1,
                '.' => shape.steps += 1,
                '?' => shape.filters += 1,
                '$' => shape.roots += u32::from(!open.is_empty()),
                _ => {}
            }
            previous = c;
        }
        shape
    }

    fn enter(&mut self, open: &mut Vec<List>, before: &str) {
        let regex = before.ends_with("match") || before.ends_with("search");
        open.push(List { length: 1, regex });
        self.steps += 1;
        self.depth = self.depth.max(open.len());
        self.regexes += u32::from(regex);
    }

    fn next_in(&mut self, list: Option<&mut List>, after: &str) {
        if let Some(list) = list {
            list.length += 1;
            self.dear_regex |= list.regex && !after.starts_with(['\'', '"']);
        }
    }
}

/// A bracket or parenthesis that is open.
struct List {
    length: u64,
    /// Whether it holds the arguments of `match` or `search`.
    regex: bool,
}

/// How large the data is, in what costs time.
#[derive(Debug, Default)]
struct Size {
    /// Values, and their text in units of [`BYTES_PER_VISIT`].
    values: u64,
    /// Deepest nesting of objects and lists.
    depth: u64,
}

impl Size {
    fn of(data: &Value) -> Self {
        let mut size = Self::default();
        size.add(data, 1);
        size
    }

    fn add(&mut self, value: &Value, level: u64) {
        self.values += 1;
        self.depth = self.depth.max(level);
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.values += (text.len() / BYTES_PER_VISIT) as u64,
            Value::Array(items) => items.iter().for_each(|item| self.add(item, level + 1)),
            Value::Object(fields) => fields.values().for_each(|item| self.add(item, level + 1)),
        }
    }
}

/// An upper bound on the visits that a query makes.
///
/// A step visits the children of each value found so far. A child has one parent, so without more
/// ado no step visits a value twice. Lists (`[0,0]`) repeat what they find once an entry; a
/// descent (`..`) reaches a value from each of its ancestors, at most one a level; a comparison in
/// a filter looks at all below a value, again once a level; a `$` in a filter starts over from the
/// root for every value tested.
fn cost(shape: &Shape, size: &Size) -> u64 {
    let found = size
        .values
        .saturating_mul(shape.list_product)
        .saturating_mul(size.depth.saturating_pow(shape.descents))
        .saturating_mul(size.values.saturating_pow(shape.roots));
    let visits =
        found.saturating_mul(shape.steps.max(1)).saturating_mul(size.depth.saturating_pow(shape.filters));
    let regexes = found
        .saturating_mul(u64::from(shape.regexes))
        .saturating_mul(REGEX_VISITS.saturating_mul(1 + shape.backslashes));
    visits.saturating_add(regexes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn ask(data: Value, query: &str) -> Result<Output, String> {
        answer(&Input { data, query: query.to_owned(), limit: 100 })
            .map_err(|error| error.message().to_owned())
    }

    fn values(data: Value, query: &str) -> Vec<Value> {
        ask(data, query).unwrap().matches.into_iter().map(|found| found.value).collect()
    }

    #[test]
    fn matches_come_with_normalised_paths_and_a_count() {
        let data = json!({ "orders": [{ "id": 7, "total": 120 }, { "id": 8, "total": 80 }, { "id": 9, "total": 300 }] });
        let output = ask(data, "$.orders[?@.total > 100].id").unwrap();
        insta::assert_json_snapshot!(output, @r#"
        {
          "count": 2,
          "matches": [
            {
              "path": "$['orders'][0]['id']",
              "value": 7
            },
            {
              "path": "$['orders'][2]['id']",
              "value": 9
            }
          ],
          "truncated": false
        }
        "#);
    }

    #[test]
    fn json_text_is_read_as_strictly_as_arguments_are() {
        let text = json!(r#"{"a": {"b": [1, 2]}}"#);
        assert_eq!(values(text, "$..b[-1]"), [json!(2)]);
        assert!(ask(json!(r#"{"a": 1, "a": 2}"#), "$.a").unwrap_err().contains("stands twice"));
        assert!(ask(json!("not json"), "$").unwrap_err().contains("must hold JSON text"));
    }

    #[test]
    fn filters_functions_and_slices_of_the_standard_work() {
        let data = json!([{ "n": "Ada", "t": [1, 2] }, { "n": "Bob", "t": [] }, { "n": "Cy" }]);
        for (query, expected) in [
            ("$[?length(@.t) > 1].n", json!(["Ada"])),
            ("$[?match(@.n, 'B.*')].n", json!(["Bob"])),
            ("$[?search(@.n, \"^[AB]\")].n", json!(["Ada", "Bob"])),
            ("$[?!@.t].n", json!(["Cy"])),
            ("$[?@.n == $[0].n].n", json!(["Ada"])),
            ("$[::-2].n", json!(["Cy", "Ada"])),
            ("$[0,2]['n']", json!(["Ada", "Cy"])),
            ("$[?count(@.t.*) == 2]['n','t']", json!(["Ada", [1, 2]])),
            ("$.nothing", json!([])),
        ] {
            assert_eq!(Value::from(values(data.clone(), query)), expected, "{query}");
        }
    }

    #[test]
    fn the_limit_and_the_size_bound_cut_and_say_so() {
        let output = answer(&Input { data: json!(vec![0; 50]), query: "$[*]".to_owned(), limit: 3 }).unwrap();
        assert_eq!((output.count, output.matches.len(), output.truncated), (50, 3, true));
        let large = json!([["x".repeat(200_000)], ["y".repeat(200_000)]]);
        let output = ask(large, "$[*]").unwrap();
        assert_eq!((output.count, output.matches.len(), output.truncated), (2, 1, true));
    }

    #[test]
    fn a_wrong_query_says_where() {
        for query in ["orders", "$.", "$[", "$[?@.a = 1]", "$..", "$[?foo(@)]", "$['a]", ""] {
            let error = ask(json!({}), query).unwrap_err();
            assert!(error.contains("position"), "{query}: {error}");
        }
    }

    #[test]
    fn hostile_queries_end_quickly_in_a_clear_fault() {
        let wide = json!(vec![json!({ "a": [1, 2, 3], "b": { "c": [1, 2] } }); 10_000]);
        let deep = (0..60).fold(json!(1), |inner, _| json!([inner, inner_leaf()]));
        let twins = (0..50).fold(json!(1), |inner, _| json!([inner]));
        let cases: Vec<(&Value, String)> = vec![
            (&wide, "$..*..*..*".to_owned()),
            (&deep, "$..*..*..*..*..*".to_owned()),
            (&twins, format!("${}", "[0,0]".repeat(50))),
            (&wide, "$[?count($..*) > 1]".to_owned()),
            (&wide, "$[?$ == $]".to_owned()),
            (&wide, "$..[?search(@, 'a')]".to_owned()),
            (&twins, "$[?search(@, '(a{100}){100}')]".to_owned()),
            (&twins, "$[?match('a', @.pattern)]".to_owned()),
            (&wide, format!("$[?{}@{}]", "(".repeat(200), ")".repeat(200))),
            (&wide, format!("${}", "[?@".repeat(100))),
            (&wide, "$.a".repeat(200_000)),
        ];
        for (data, query) in cases {
            let started = Instant::now();
            let error = ask(data.clone(), &query).map(|output| output.count).unwrap_err();
            assert!(
                error.contains("too long")
                    || error.contains("longer")
                    || error.contains("nested")
                    || error.contains("literal"),
                "{error}"
            );
            assert!(started.elapsed() < Duration::from_secs(3), "{query:.30} took {:?}", started.elapsed());
        }
    }

    fn inner_leaf() -> Value {
        json!({ "x": 1 })
    }

    #[test]
    fn the_dearest_queries_that_pass_are_still_quick() {
        let parentheses = "(".repeat(QUERY_DEPTH_MAX - 1) + "@.a==1" + &")".repeat(QUERY_DEPTH_MAX - 1);
        let filters = "[?@".repeat(QUERY_DEPTH_MAX) + ".a" + &"]".repeat(QUERY_DEPTH_MAX);
        let queries = [
            format!("$[?{}]", vec![parentheses; 24].join("&&")),
            format!("${filters}"),
            r"$[?search(@.a, '\\w\\w')]".to_owned(),
            "$..*..*..*".to_owned(),
        ];
        let wide = json!(vec![json!({ "a": "x" }); 200]);
        for query in queries {
            let started = Instant::now();
            let result = ask(wide.clone(), &query);
            let took = started.elapsed();
            assert!(took < Duration::from_secs(3), "{query} took {took:?}: {result:?}");
        }
    }

    proptest! {
        #[test]
        fn random_queries_never_panic(query in "\\$([.\\[\\]?@*,:0-9a-c'\"()=<>!&| ]|\\.\\.|count\\(|match\\(){0,20}") {
            let _ = ask(json!({ "a": [1, { "b": "c" }], "c": null }), &query);
        }

        #[test]
        fn the_cost_is_never_below_what_a_query_finds(
            steps in proptest::collection::vec(
                prop_oneof![
                    Just("..*"), Just("[*]"), Just("[0,0]"), Just("..[*,0]"), Just(".a"), Just("['a','a',*]"),
                    Just("[?@.a,?@[0]]"), Just("[?count($..*)>0]"), Just("..[?@..a]"), Just("[::-1]"),
                ],
                1..4,
            ),
            levels in 1usize..5,
        ) {
            let data = (0..levels).fold(json!(1), |inner, _| json!([inner, { "a": inner }, 2]));
            let query = format!("${}", steps.concat());
            let cost = cost(&Shape::of(&query), &Size::of(&data));
            if cost <= VISITS_MAX {
                let found = JsonPath::parse(&query).unwrap().query_located(&data).len() as u64;
                prop_assert!(found <= cost, "{query}: found {found}, cost {cost}");
            }
        }
    }
}
