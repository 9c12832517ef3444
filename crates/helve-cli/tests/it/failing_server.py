"""An MCP server for the tests whose tools fail as servers in the field do: an error with structured content that
does not fit the tool's output schema, an error that says nothing, and one of the protocol."""

import json
import sys

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
RESULTS = {
    "fine": {"content": [{"type": "text", "text": "one"}], "structuredContent": {"n": 1}},
    "structured": {
        "content": [{"type": "text", "text": "no such city"}],
        "structuredContent": {"city": "Atlantis"},
        "isError": True,
    },
    "silent": {"content": [], "isError": True},
    "unfit": {"content": [{"type": "text", "text": "two"}], "structuredContent": {"m": 2}},
    "missing": {"content": [{"type": "text", "text": "three"}]},
}
TOOLS = [
    {"name": name, "description": "Fails.", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA,
     "annotations": {"readOnlyHint": True}}
    for name in [*RESULTS, "refused"]
] + [
    {"name": "list", "description": "A list.", "inputSchema": {"type": "object"},
     "outputSchema": {"type": "array", "items": {"type": "integer"}}, "annotations": {"readOnlyHint": True}}
]
RESULTS["list"] = {"structuredContent": [1, 2]}
INFO = {"name": "failing", "version": "1.0"}
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO},
        "ping": {},
        "tools/list": {"tools": TOOLS},
        "tools/call": RESULTS.get(params.get("name")),
    }
    if "id" not in message or method is None:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if results.get(method) is not None:
        answer["result"] = results[method]
    else:
        answer["error"] = {"code": -32602, "message": "the server refuses"}
    print(json.dumps(answer), flush=True)
