//! A hook as it is shown to the person who is asked to trust it. Nothing is cut, and nothing that runs or leaves is
//! left out: what is not seen is not trusted.

use helve::hook::{HookEvent, OnFailure};
use helve_tools::hooks::{HookConfig, HookGroup};
use serde_json::json;

use crate::ui::{Paint, escape};

/// What to know of a hook that answers questions.
const STANDS_IN: &str = "answers in your place: what it allows runs without anybody being asked, also what policies, \
    rules and labels ask about";
/// What further lines of a hook begin with.
const INDENT: &str = "      ";

pub(super) fn lines(event: &HookEvent, group: &HookGroup, hook: &HookConfig, paint: Paint) -> Vec<String> {
    let matcher = whole(group.matcher.as_deref().unwrap_or("*"));
    let mut lines = vec![format!("  {event} {matcher}  {}", whole(&hook.label()))];
    let mut more = |line: String| lines.push(format!("{INDENT}{line}"));
    if *event == HookEvent::PermissionRequest {
        more(format!("{} {STANDS_IN}", paint.warn("!")));
    }
    if let Some(args) = &hook.args {
        more(format!("with the arguments {}", whole(&json!(args).to_string())));
    }
    if let Some(input) = &hook.input {
        more(format!("with the input {}", whole(&json!(input).to_string())));
    }
    for (name, value) in &hook.headers {
        let header = whole(&format!("{name}: {value}"));
        more(match value.contains("${env:") {
            true => format!("{} sends variables of your environment: {header}", paint.warn("!")),
            false => format!("and sends {header}"),
        });
    }
    for (what, granted) in [("reads", &hook.reach.read), ("changes", &hook.reach.write)] {
        if !granted.is_empty() {
            let places: Vec<_> = granted.iter().map(|place| place.to_string_lossy()).collect();
            more(format!("and {what} {}", whole(&places.join(", "))));
        }
    }
    if hook.in_background {
        more("and nobody waits for it: it stops nothing".to_owned());
    }
    if group.on_failure() == Some(OnFailure::Continue) {
        more("and where it fails, what it guards goes on".to_owned());
    }
    lines
}

/// All of a text, in as many lines as it has: in one, what follows a comment would look like a part of it.
fn whole(text: &str) -> String {
    escape::visible(text).replace('\n', &format!("\n{INDENT}| "))
}
