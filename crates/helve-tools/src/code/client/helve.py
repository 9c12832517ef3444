"""Calls other tools from inside the box: each goes through Helve's whole pipeline.

    import helve
    page = helve.call("http-get", url="https://example.com/")
"""
import json, socket

PORT = 3129

class ToolError(Exception):
    """A call that failed: `code`, `message` and `suggestions` say why and what to do."""
    def __init__(self, error):
        self.code, self.message = error.get("code"), error.get("message")
        self.suggestions = error.get("suggestions", [])
        super().__init__(f"{self.code}: {self.message}")

def call(tool, arguments=None, **named):
    """Calls a tool and returns its result."""
    request = {"tool": tool, "arguments": {**(arguments or {}), **named}}
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(connection.makefile("rb").readline() or b'{"ok": false, "error": {"code": "internal", "message": "no answer"}}')
    if answer["ok"]:
        return answer["result"]
    raise ToolError(answer["error"])
