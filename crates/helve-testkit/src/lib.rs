//! Fakes and fixtures for Helve's own tests.
