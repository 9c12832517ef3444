//! Makes one HTTP tool of each operation in an OpenAPI document, 3.0 to 3.2.
//!
//! - [`config`] is what stands in the configuration;
//! - [`document`] reads the document and follows its references;
//! - `schema` and `inputs` make one input schema of parameters and body;
//! - `access` knows where the API is and which credentials go with a request;
//! - `operation` puts these together.
//!
//! Real documents have mistakes. An operation that cannot be imported is skipped with a reason and
//! the others are not affected.

pub mod config;
pub mod document;

mod access;
mod inputs;
mod naming;
mod operation;
mod schema;
mod select;

use std::io::Read;
use std::path::Path;

use helve::{Problem, Tool};
use helve_net::{Method, Request, Url};

use crate::http::Backend;
use access::Access;
use document::{DOCUMENT_BYTES_MAX, Document, fields, text};
use naming::Names;
use operation::{Made, Operation, Shared};
use select::{Selection, select};

pub use config::{OpenApiConfig, Selector};
pub use document::ImportError;

/// Most operations of one document that become tools.
const OPERATIONS_MAX: usize = 5_000;
/// Most operations of one document that are looked at, to see whether they are wanted.
const LOOKED_AT_MAX: usize = 100_000;
/// Longest name of a tool within its namespace. Providers see 64 characters with the namespace.
const NAME_CHARS_MAX: usize = 60;

const METHODS: [&str; 9] = ["get", "head", "post", "put", "patch", "delete", "options", "trace", "query"];

/// What came of a document.
#[derive(Debug)]
#[non_exhaustive]
pub struct Import {
    /// The tools, in the order of the document's paths.
    pub tools: Vec<Tool>,
    /// The operations that could not be imported.
    pub skipped: Vec<Skipped>,
    /// The operations that were imported without some part of them.
    pub reduced: Vec<Skipped>,
    /// Selectors of the configuration that pick no operation, such as `exclude/0`.
    pub unmatched: Vec<Problem>,
}

/// An operation that could not be imported, or not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Which, as in `GET /pets`.
    pub operation: String,
    /// Why the operation was skipped.
    pub reason: String,
}

/// Reads the document that a configuration names and imports it. A relative path starts at
/// `folder`.
pub async fn load(config: &OpenApiConfig, folder: &Path, backend: &Backend) -> Result<Import, ImportError> {
    let name = &config.document;
    if !name.starts_with("http://") && !name.starts_with("https://") {
        return import(config, &read_file(&folder.join(name), name)?, None, backend);
    }
    let request = Request::get(name)?.response_bytes_max(DOCUMENT_BYTES_MAX);
    let response = backend.client.fetch(request).await?;
    if !response.status.is_success() {
        return Err(ImportError::Status(response.status.as_u16()));
    }
    import(config, &response.body, Some(&response.url), backend)
}

/// Imports a document that was read already. `origin` is where it came from, for servers that it
/// names without a host.
pub fn import(
    config: &OpenApiConfig,
    document: &[u8],
    origin: Option<&Url>,
    backend: &Backend,
) -> Result<Import, ImportError> {
    let document = &Document::parse(document)?;
    let refuse = |reason| ImportError::Config { namespace: config.namespace.clone(), reason };
    let access = &Access::of(config).map_err(refuse)?;
    access.check_schemes(document).map_err(refuse)?;
    let shared = Shared { config, document, access, origin, backend };
    let mut skipped = Vec::new();
    let found = operations(document, &mut skipped);
    let Selection { wanted, unmatched } = select(config, &found).map_err(refuse)?;
    let mut import = Import { tools: Vec::new(), skipped, reduced: Vec::new(), unmatched };
    let mut names = Names::default();
    for (seen, operation) in wanted.into_iter().enumerate() {
        if seen >= OPERATIONS_MAX {
            let reason = format!(
                "it comes after the first {OPERATIONS_MAX} operations that are wanted; choose with `include` and \
                 `exclude`, or import the document in parts under several namespaces"
            );
            import.skipped.push(Skipped { operation: title(operation), reason });
            continue;
        }
        let name = name(operation, &mut names);
        match operation::tool(&shared, operation, &name) {
            Ok(Made { tool, left_out }) => {
                names.take(&name);
                import.tools.push(tool);
                let reduced = left_out.map(|reason| Skipped { operation: title(operation), reason });
                import.reduced.extend(reduced);
            }
            Err(reason) => import.skipped.push(Skipped { operation: title(operation), reason }),
        }
    }
    Ok(import)
}

/// Where requests go that a document in a file describes, where the configuration does not say it. None: it cannot be
/// told, and no tool comes of it.
pub fn server_of(config: &OpenApiConfig, folder: &Path) -> Option<Url> {
    let bytes = read_file(&folder.join(&config.document), &config.document).ok()?;
    let document = Document::parse(&bytes).ok()?;
    access::first_server(config, document.get("servers"), None).ok()
}

fn read_file(path: &Path, name: &str) -> Result<Vec<u8>, ImportError> {
    let read = || {
        let mut bytes = Vec::new();
        let limit = DOCUMENT_BYTES_MAX as u64 + 1;
        std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|source| ImportError::File { name: name.to_owned(), source })
}

/// The operations of a document.
fn operations<'d>(document: &'d Document, skipped: &mut Vec<Skipped>) -> Vec<Operation<'d>> {
    let mut found = Vec::new();
    for (path, item) in fields(document.get("paths")).filter(|(path, _)| !path.starts_with("x-")) {
        let item = match document.resolve(item) {
            Ok(item) => item,
            Err(reason) => {
                skipped.push(Skipped { operation: naming::prose(path, 200), reason });
                continue;
            }
        };
        let usual = METHODS.iter().filter_map(|name| Some((*name, item.get(*name)?)));
        let others = fields(item.get("additionalOperations")).map(|(name, value)| (name.as_str(), value));
        for (name, value) in usual.chain(others) {
            if found.len() >= LOOKED_AT_MAX {
                let reason = format!("it and what follows come after the first {LOOKED_AT_MAX} operations");
                skipped.push(Skipped { operation: naming::prose(path, 200), reason });
                return found;
            }
            match Method::from_bytes(name.to_ascii_uppercase().as_bytes()) {
                Ok(method) => found.push(Operation { path, method, item, value }),
                Err(_) => skipped.push(Skipped {
                    operation: naming::prose(path, 200),
                    reason: format!("`{}` is not a method", naming::prose(name, 40)),
                }),
            }
        }
    }
    found
}

fn title(operation: &Operation<'_>) -> String {
    naming::prose(&format!("{} {}", operation.method, operation.path), 200)
}

/// A name from the operation's id; from its method and path where it has none or it is taken.
fn name(operation: &Operation<'_>, taken: &mut Names) -> String {
    let id = text(operation.value, "operationId").map(|id| naming::sanitised(id, NAME_CHARS_MAX));
    let free = id.filter(|id| !id.is_empty() && !taken.has(id));
    let wanted = free.unwrap_or_else(|| {
        let text = format!("{}_{}", operation.method.as_str().to_ascii_lowercase(), operation.path);
        naming::sanitised(&text, NAME_CHARS_MAX)
    });
    taken.free(&wanted, "operation")
}
