//! - `formats`: tools, calls and results as the model providers write them;
//! - `sdk`: the same, held against the providers' own SDKs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod formats;
mod sdk;
