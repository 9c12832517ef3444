//! How accounts are connected: servers found from an address, and their logins tried.
