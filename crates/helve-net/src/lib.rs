//! The one guarded outbound HTTP client.
