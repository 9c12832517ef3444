//! Which provider wrote an answer, told by its shape.

use serde_json::Value;

use super::format::Format;

impl Format {
    /// The format that an answer is written in, where only one fits. None where several do, as with an
    /// empty list, or none.
    ///
    /// ```
    /// use helve::formats::Format;
    /// use serde_json::json;
    /// let message = json!({ "role": "assistant", "content": null, "tool_calls": [] });
    /// assert_eq!(Format::detect(&message), Some(Format::OpenAiChat));
    /// // MCP's parameters and a call of one's own prompt look the same.
    /// assert_eq!(Format::detect(&json!({ "name": "add", "arguments": {} })), None);
    /// ```
    pub fn detect(answer: &Value) -> Option<Self> {
        match answer {
            Value::Array(items) => of_list(items),
            Value::Object(_) => of_object(answer),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
}

/// A list is in a format if each of its items is. Items that could be of several, such as text, say nothing.
fn of_list(items: &[Value]) -> Option<Format> {
    let mut found: Vec<Format> = items.iter().filter_map(of_item).collect();
    found.dedup();
    match found[..] {
        [format] => Some(format),
        _ => None,
    }
}

/// A block, an item, a part, a tool call, a choice or a candidate.
fn of_item(item: &Value) -> Option<Format> {
    let has = |key: &str| item.get(key).is_some();
    match item.get("type").and_then(Value::as_str) {
        Some("tool_use" | "thinking" | "redacted_thinking" | "server_tool_use") => Some(Format::Anthropic),
        Some("function_call" | "reasoning") => Some(Format::OpenAi),
        Some("message") => of_object(item),
        Some("function") if has("function") => Some(Format::OpenAiChat),
        Some(_) => None,
        // Gemini's calls have `args`, also where the Python SDK writes them.
        None if item["function_call"].get("arguments").is_some() => Some(Format::OpenAiChat),
        None if has("functionCall") || has("function_call") => Some(Format::Gemini),
        None if has("content") && has("finishReason") => Some(Format::Gemini),
        None if has("message") || has("function") => Some(Format::OpenAiChat),
        None if item["method"] == "tools/call" => Some(Format::Mcp),
        None => None,
    }
}

/// A whole response, a message, or one item.
fn of_object(answer: &Value) -> Option<Format> {
    let has = |key: &str| answer.get(key).is_some();
    if has("candidates") || has("parts") {
        return Some(Format::Gemini);
    }
    if has("choices") || has("tool_calls") {
        return Some(Format::OpenAiChat);
    }
    if answer.get("output").is_some_and(Value::is_array) {
        return Some(Format::OpenAi);
    }
    match answer.get("content") {
        Some(Value::Array(blocks)) if answer["role"] == "assistant" => Some(of_blocks(blocks)),
        // Anthropic answers with blocks, even where there is one text alone.
        Some(Value::String(_) | Value::Null) if answer["role"] == "assistant" => Some(Format::OpenAiChat),
        _ => of_item(answer),
    }
}

/// A message with blocks: OpenAI's Responses API calls its texts otherwise.
fn of_blocks(blocks: &[Value]) -> Format {
    let is_openai = |block: &Value| block["type"] == "output_text" || block["type"] == "refusal";
    if blocks.iter().any(is_openai) { Format::OpenAi } else { Format::Anthropic }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_providers_answers_are_told_apart() {
        let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "add", "input": {} });
        let function = json!({ "id": "call_1", "type": "function",
            "function": { "name": "add", "arguments": "{}" } });
        let item = json!({ "type": "function_call", "call_id": "c", "name": "add", "arguments": "{}" });
        let said = json!({ "type": "message", "role": "assistant",
            "content": [{ "type": "output_text", "text": "hi" }] });
        let part = json!({ "functionCall": { "name": "add", "args": {} } });
        for (answer, format) in [
            (json!({ "type": "message", "role": "assistant", "content": [call.clone()] }), Format::Anthropic),
            (
                json!({ "role": "assistant", "content": [{ "type": "text", "text": "hi" }] }),
                Format::Anthropic,
            ),
            (call.clone(), Format::Anthropic),
            (json!([{ "type": "text", "text": "hi" }, call]), Format::Anthropic),
            (json!({ "role": "assistant", "content": "hi" }), Format::OpenAiChat),
            (json!({ "role": "assistant", "tool_calls": [function.clone()] }), Format::OpenAiChat),
            (json!({ "choices": [{ "message": {} }] }), Format::OpenAiChat),
            (
                json!({ "role": "assistant", "function_call": { "name": "add", "arguments": "{}" } }),
                Format::OpenAiChat,
            ),
            (json!({ "function_call": { "name": "add", "args": {} } }), Format::Gemini),
            (json!([function]), Format::OpenAiChat),
            (json!({ "object": "response", "output": [item.clone()] }), Format::OpenAi),
            (json!([said.clone(), item.clone()]), Format::OpenAi),
            (said, Format::OpenAi),
            (item, Format::OpenAi),
            (json!({ "candidates": [{ "content": { "parts": [part.clone()] } }] }), Format::Gemini),
            (json!({ "role": "model", "parts": [part.clone()] }), Format::Gemini),
            (json!([part]), Format::Gemini),
            (json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {} }), Format::Mcp),
        ] {
            assert_eq!(Format::detect(&answer), Some(format), "{answer}");
        }
        for answer in [
            json!([]),
            json!({}),
            json!("hi"),
            json!({ "name": "add", "arguments": {} }),
            json!([{ "type": "tool_use" }, { "type": "function_call" }]),
            json!({ "role": "user", "content": "hi" }),
        ] {
            assert_eq!(Format::detect(&answer), None, "{answer}");
        }
    }
}
