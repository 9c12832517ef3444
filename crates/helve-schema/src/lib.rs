//! Machinery for what strangers send: JSON, schemas, expressions and secrets in texts.
//!
//! Everything here is a pure function of its input, with a limit on what it may take. It knows nothing of tools and calls.
//!
//! - [`json`]: reading, writing and comparing JSON within limits;
//! - [`schema`]: JSON Schema compiled, checked and metered; arguments validated, mended and described;
//! - [`expression`] and [`template`]: conditions and texts in configuration;
//! - [`regexp`]: what a regular expression costs; [`secret`]: what secrets are called, and where they stand in texts;
//! - [`Problem`], [`FieldError`], [`Repair`]: what is wrong, and what was mended.

pub mod json;
mod problem;
pub mod regexp;
pub mod secret;

pub mod expression;
pub mod schema;

pub use expression::template;
pub use problem::{FieldError, Problem, Repair};
pub use schema::Schema;
