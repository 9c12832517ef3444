"""FastMCP's proxy in front of a server: fastmcp_proxy.py URL. Prints `READY port`."""

import socket
import sys

import uvicorn
from fastmcp.server import create_proxy

app = create_proxy(sys.argv[1]).http_app(stateless_http=True, json_response=True)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(128)
print("READY", listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_keep_alive=600)).run(sockets=[listener])
