//! - `formats`: tools, calls and results as the model providers write them;
//! - `sdk`: the same, held against the providers' own SDKs.

mod formats;
mod sdk;
