"""A small MCP server that tells the digest of the token it was given: in its environment, or, where it is
given the name of a file for its port, in the header of each request."""

import hashlib
import http.server
import json
import os
import sys

TOOL = {
    "name": "token",
    "description": "Tells the digest of the token.",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}
INFO = {"name": "small", "version": "1.0"}


def answer(message, token):
    if "id" not in message or "method" not in message:
        return None
    digest = hashlib.sha256(token.encode()).hexdigest()
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO},
        "ping": {},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": digest}]},
    }
    if message["method"] in results:
        return {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        said = answer(json.loads(body), self.headers.get("authorization", ""))
        text = json.dumps(said).encode() if said else b""
        self.send_response(200 if said else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


if len(sys.argv) > 1:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(sys.argv[1], "w") as file:
        file.write(str(server.server_port))
    server.serve_forever()
else:
    for line in sys.stdin:
        said = answer(json.loads(line), os.environ.get("TOKEN", ""))
        if said:
            print(json.dumps(said), flush=True)
