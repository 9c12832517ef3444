//! Tools to ask about, and a short way to ask.

use helve_core::ports::Policy as _;
use helve_core::{
    Action, Caller, Context, LabelSet, PolicyRequest, PolicyResource, Risk, Tool, ToolError, Vote,
};
use helve_policy::{Finding, Policies, PolicyFile, Vocabulary};
use serde_json::{Value, json};

pub(crate) fn tool(name: &str, risk: Risk, input_schema: Value) -> Tool {
    async fn run(_: Value, _: Context) -> Result<Value, ToolError> {
        Ok(Value::Null)
    }
    Tool::builder(name)
        .description("Does something for a test.")
        .risk(risk)
        .input_schema(input_schema)
        .handler(run)
        .build()
        .unwrap()
}

/// A mail tool with an argument of every sort, and two others.
pub(crate) fn tools() -> Vec<Tool> {
    let mail = json!({
        "type": "object",
        "required": ["to"],
        "properties": {
            "to": { "type": "string" },
            "cc": { "type": ["string", "null"] },
            "copies": { "type": "integer" },
            "urgent": { "type": "boolean" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "price": { "type": "number" },
            "options": {
                "type": "object",
                "properties": { "mode": { "enum": ["fast", "slow"] }, "weight": { "type": "number" } },
            },
        },
    });
    vec![
        tool("mail/send", Risk::High, mail),
        tool("mail/inbox/read", Risk::Low, json!({ "type": "object" })),
        tool("bank-wipe", Risk::Critical, json!({ "type": "object" })),
    ]
}

pub(crate) fn load(text: &str) -> Result<Policies, Vec<Finding>> {
    let tools = tools();
    Policies::load(&[PolicyFile::new("p.cedar", text)], Vocabulary::tools(&tools))
}

/// What is wrong with a text.
pub(crate) fn wrong(text: &str) -> String {
    let findings = load(text).expect_err(text);
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// What is said to a call.
pub(crate) fn call(policies: &Policies, caller: &Caller, tool: &Tool, arguments: &Value) -> Vote {
    ask(policies, caller, Action::Call, PolicyResource::Tool(tool), Some(arguments))
}

pub(crate) fn ask(
    policies: &Policies,
    caller: &Caller,
    action: Action,
    resource: PolicyResource<'_>,
    arguments: Option<&Value>,
) -> Vote {
    let now = "2026-11-16T10:00:00Z".parse().unwrap();
    policies.rule(&PolicyRequest { caller, action, resource, arguments, labels: LabelSet::NONE, now })
}

/// `deny by policy x: why`.
pub(crate) fn said(vote: &Vote) -> String {
    let reason = vote.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{} by {}{reason}", vote.stance, vote.by)
}
