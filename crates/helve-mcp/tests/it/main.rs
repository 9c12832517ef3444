//! Tests against real counterparts.
