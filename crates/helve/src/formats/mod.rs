//! What model providers see of a tool, and how their calls come back.
