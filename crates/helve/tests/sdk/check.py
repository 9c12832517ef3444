"""Holds Helve's provider formats against the providers' own SDK types.

Usage: check.py IN.json OUT.json

IN holds, by format, exported tools (as usual, and strict where allowed) and result messages.
Each must pass the SDK's type and come out unchanged: a key that the type does not know would be
lost on the way. OUT gets answers that hold calls, built with the SDKs, for Helve to read.
"""

import json
import re
import sys
from collections.abc import Iterable

import anthropic.types
import openai.types.chat
import openai.types.responses
from anthropic import transform_schema
from google.genai import types as gemini
from mcp import types as mcp
from openai.lib._pydantic import _ensure_strict_json_schema
from openai.types.responses.response_input_param import FunctionCallOutput
from pydantic import BaseModel, TypeAdapter, ValidationError

PROVIDER_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAMES = {
    "anthropic": PROVIDER_NAME,
    "openai": PROVIDER_NAME,
    "openai-chat": PROVIDER_NAME,
    "gemini": re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"),
    "mcp": re.compile(r"[A-Za-z0-9._-]{1,128}"),
    "llm": PROVIDER_NAME,
}

failures = []


def unchanged(what, kind, value, **dump):
    """Checks that `value` is of the SDK type `kind` and that the type keeps all of it."""
    adapter = TypeAdapter(kind)  # It must outlive the lazy parts of what it checks.
    try:
        back = plain(adapter.validate_python(value), dump)
    except ValidationError as error:
        failures.append(f"{what}: {error}")
        return
    if back != value:
        failures.append(f"{what}: {json.dumps(value)} came out as {json.dumps(back)}")


def plain(value, dump):
    """A checked value as plain JSON. Pydantic checks iterables only while they are read."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", **dump)
    if isinstance(value, dict):
        return {key: plain(item, dump) for key, item in value.items()}
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return [plain(item, dump) for item in value]


def refuses(kind, value):
    """The check itself must bite: a value that is wrong must not pass."""
    before = len(failures)
    unchanged("self-test", kind, value)
    if len(failures) == before:
        failures.append(f"{kind} let {value} through unchanged")
    del failures[before:]


# How the SDKs' models, as opposed to their dictionaries, write themselves for the wire.
WIRE = {"by_alias": True, "exclude_unset": True}

TOOL_TYPES = {
    "anthropic": (anthropic.types.ToolParam, {}),
    "openai": (openai.types.responses.FunctionToolParam, {}),
    "openai-chat": (openai.types.chat.ChatCompletionToolParam, {}),
    "gemini": (gemini.Tool, WIRE),
    "mcp": (mcp.Tool, WIRE),
}
RESULT_TYPES = {
    "anthropic": (anthropic.types.MessageParam, {}),
    "openai": (FunctionCallOutput, {}),
    "openai-chat": (openai.types.chat.ChatCompletionToolMessageParam, {}),
    "gemini": (gemini.Content, WIRE),
    "mcp": (mcp.CallToolResult, WIRE),
}


def entries(form, tools):
    """The single tools in an export."""
    if form == "gemini":
        return tools[0]["functionDeclarations"]
    return [tool["function"] for tool in tools] if form == "openai-chat" else tools


def check_tools(form, tools):
    kind, dump = TOOL_TYPES[form]
    for tool in tools:
        unchanged(f"{form} tool", kind, tool, **dump)
    check_names(form, tools)
    for tool in entries(form, tools):
        if tool.get("strict") and form == "anthropic":
            check_strict_anthropic(tool)
        elif tool.get("strict"):
            check_strict_openai(tool)


def check_names(form, tools):
    names = [tool["name"] for tool in entries(form, tools)]
    for name in names:
        if not NAMES[form].fullmatch(name):
            failures.append(f"{form}: the name {name} breaks the provider's rule")
    if len(set(names)) != len(names):
        failures.append(f"{form}: a name stands twice")


def check_strict_openai(tool):
    """OpenAI's own SDK must find nothing left to make strict."""
    schema = tool["parameters"]
    copy = json.loads(json.dumps(schema))
    if _ensure_strict_json_schema(copy, path=(), root=copy) != schema:
        failures.append(f"openai would rewrite the strict schema of {tool['name']}: {schema}")
    for part in objects(schema):
        if sorted(part.get("required", [])) != sorted(part.get("properties", {})):
            failures.append(f"openai: not every field is required in {tool['name']}: {part}")


def check_strict_anthropic(tool):
    """Anthropic's own SDK must find no keyword that it would have to move into a description."""
    schema = tool["input_schema"]
    ours = as_anthropic_writes(schema)
    if transform_schema(ours) != ours:
        failures.append(f"anthropic would rewrite the strict schema of {tool['name']}: {schema}")
    for part in objects(schema):
        if part.get("additionalProperties") is not False:
            failures.append(f"anthropic: an open object in {tool['name']}: {part}")


def as_anthropic_writes(schema):
    """The same schema, spelled as the SDK spells it: it knows no lists of types, leaves the type of
    an enum out, and writes empty properties."""
    if isinstance(schema, list):
        return [as_anthropic_writes(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    written = {key: as_anthropic_writes(value) for key, value in schema.items() if key != "enum"}
    if isinstance(schema.get("type"), list):
        written["type"] = schema["type"][0]
    if "enum" in schema:
        written["enum"] = schema["enum"]
        del written["type"]
    if schema.get("type") == "object":
        written.setdefault("properties", {})
    return written


def objects(schema):
    """Every object schema within a schema."""
    if isinstance(schema, list):
        for item in schema:
            yield from objects(item)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for item in schema.values():
            yield from objects(item)


def check_results(form, messages):
    kind, dump = RESULT_TYPES[form]
    for message in messages:
        unchanged(f"{form} result", kind, message, **dump)


def self_test():
    refuses(anthropic.types.ToolParam, {"name": "x", "input_schema": {"type": "object"}, "bogus": 1})
    refuses(anthropic.types.ToolParam, {"input_schema": {"type": "object"}})
    refuses(
        anthropic.types.MessageParam,
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": "perhaps"}]},
    )
    refuses(openai.types.responses.FunctionToolParam, {"type": "function", "name": "x", "parameters": {}})
    refuses(FunctionCallOutput, {"type": "function_call_output", "call_id": "c"})
    refuses(gemini.Tool, {"functionDeclarations": [{"name": "x", "inputSchema": {}}]})
    refuses(mcp.Tool, {"name": "x"})


# The calls that every answer below holds; the Rust side knows them too.
FIRST = {"to": ["ada@example.com"], "body": "I am late. ä \"quoted\""}
SECOND = {}


def answers():
    return {
        "anthropic": anthropic_answer(),
        "openai": openai_answer(),
        "openai-chat": chat_answer(),
        "gemini": gemini_answer(by_alias=True),
        "gemini-snake": gemini_answer(by_alias=False),
        "mcp": mcp_answer(),
    }


def anthropic_answer():
    message = anthropic.types.Message(
        id="msg_1",
        type="message",
        role="assistant",
        model="a-model",
        stop_reason="tool_use",
        content=[
            anthropic.types.ThinkingBlock(type="thinking", thinking="Hm.", signature="c2ln"),
            anthropic.types.TextBlock(type="text", text="I will send it."),
            anthropic.types.ToolUseBlock(type="tool_use", id="c1", name="mail__send", input=FIRST),
            anthropic.types.ToolUseBlock(type="tool_use", id="c2", name="ping", input=SECOND),
        ],
        usage=anthropic.types.Usage(input_tokens=1, output_tokens=1),
    )
    return message.model_dump(mode="json")


def openai_answer():
    call = openai.types.responses.ResponseFunctionToolCall
    response = openai.types.responses.Response(
        id="resp_1",
        created_at=0,
        model="a-model",
        object="response",
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        output=[
            openai.types.responses.ResponseReasoningItem(id="rs_1", type="reasoning", summary=[]),
            openai.types.responses.ResponseOutputMessage(
                id="m_1", type="message", role="assistant", status="completed", content=[]
            ),
            call(
                type="function_call", id="f_1", call_id="c1", name="mail__send", arguments=json.dumps(FIRST)
            ),
            call(type="function_call", id="f_2", call_id="c2", name="ping", arguments=""),
        ],
    )
    return response.model_dump(mode="json", by_alias=True)


def chat_answer():
    chat = openai.types.chat
    call = chat.ChatCompletionMessageFunctionToolCall
    function = chat.chat_completion_message_function_tool_call.Function
    message = chat.ChatCompletionMessage(
        role="assistant",
        content=None,
        tool_calls=[
            call(
                id="c1", type="function", function=function(name="mail__send", arguments=json.dumps(FIRST))
            ),
            call(id="c2", type="function", function=function(name="ping", arguments="{}")),
        ],
    )
    choice = chat.chat_completion.Choice(index=0, finish_reason="tool_calls", message=message)
    completion = chat.ChatCompletion(
        id="chatcmpl_1", choices=[choice], created=0, model="a-model", object="chat.completion"
    )
    return completion.model_dump(mode="json")


def gemini_answer(by_alias):
    content = gemini.Content(
        role="model",
        parts=[
            gemini.Part(text="Hm.", thought=True),
            gemini.Part(
                function_call=gemini.FunctionCall(id="c1", name="mail__send", args=FIRST),
                thought_signature=b"sig",
            ),
            gemini.Part(function_call=gemini.FunctionCall(id="c2", name="ping", args=SECOND)),
        ],
    )
    response = gemini.GenerateContentResponse(candidates=[gemini.Candidate(content=content)])
    return response.model_dump(mode="json", by_alias=by_alias, exclude_none=by_alias)


def mcp_answer():
    calls = [("c1", "mail__send", FIRST), ("c2", "ping", SECOND)]
    return [
        {
            "jsonrpc": "2.0",
            "id": id,
            **mcp.CallToolRequest(
                params=mcp.CallToolRequestParams(name=name, arguments=arguments)
            ).model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        for id, name, arguments in calls
    ]


def main():
    with open(sys.argv[1]) as file:
        given = json.load(file)
    self_test()
    for kind in ("usual", "strict"):
        for form, tools in given[kind].items():
            check_tools(form, tools)
    for form, messages in given["results"].items():
        check_results(form, messages)
    with open(sys.argv[2], "w") as file:
        json.dump(answers(), file)
    if failures:
        sys.exit("\n".join(failures))


main()
