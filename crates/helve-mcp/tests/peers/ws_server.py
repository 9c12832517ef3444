"""An echo server over WebSocket (subprotocol `mcp`, path /ws), made with `mcp` 1: ws_server.py PORT

It prints `READY port` on stderr once the port takes connections; port 0 picks one.
"""

import asyncio
import socket
import sys
import warnings

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.websocket import websocket_server
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute

warnings.simplefilter("ignore", DeprecationWarning)
server = FastMCP("echo-ws")


class Sum(BaseModel):
    total: int


class Name(BaseModel):
    name: str


@server.tool()
def echo(message: str) -> str:
    """Gives the message back."""
    return message


@server.tool()
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(total=a + b)


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Sleeps, and reports progress ten times a second."""
    steps = max(1, int(seconds * 10))
    for step in range(steps):
        await asyncio.sleep(seconds / steps)
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return f"slept {seconds}"


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("it always fails")


@server.tool()
async def ask(ctx: Context) -> str:
    """Asks the user for a name."""
    answer = await ctx.elicit("What is your name?", Name)
    return f"Hello {answer.data.name}" if answer.action == "accept" else f"user: {answer.action}"


async def session(websocket) -> None:
    async with websocket_server(websocket.scope, websocket.receive, websocket._send) as (reads, writes):
        inner = server._mcp_server
        await inner.run(reads, writes, inner.create_initialization_options())


if __name__ == "__main__":
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", int(sys.argv[1])))
    sock.listen(128)
    print(f"READY {sock.getsockname()[1]}", file=sys.stderr, flush=True)
    app = Starlette(routes=[WebSocketRoute("/ws", session)])
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[sock]))
