"""A small MCP server for the tests. What its tool says of itself stands in `description.txt`, so that
a test can change it between two starts."""

import json
import sys

try:
    description = open("description.txt").read().strip()
except OSError:
    description = "Gives the text back."
print("the server starts", file=sys.stderr, flush=True)
TOOL = {
    "name": "say",
    "description": description,
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {"readOnlyHint": True},
}
INFO = {"name": "small", "version": "1.0"}
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO},
        "ping": {},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "you said " + str((params.get("arguments") or {}).get("text"))}]},
    }
    if "id" not in message or method is None:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if method in results:
        answer["result"] = results[method]
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
