"""An echo server made with the official Python SDK, `mcp` 2: echo_mcp.py stdio|sse|http [PORT]

Over HTTP it answers both eras at /mcp, over SSE at /sse. It prints `READY port` on stderr once the
port takes connections; port 0 picks one.
"""

import asyncio
import socket
import sys
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("echo-mcp", version="1.2.3", instructions="Echoes what it is told.")


class Sum(BaseModel):
    total: int


class Name(BaseModel):
    name: str


@server.tool(annotations=ToolAnnotations(read_only_hint=True, title="Echo"))
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


begun: list[str] = []
given_up: list[str] = []


@server.tool()
async def patient(label: str) -> str:
    """Waits for a minute, and notes when it is taken back."""
    begun.append(label)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        given_up.append(label)
        raise
    return "waited"


@server.tool()
def patience() -> str:
    """What `patient` has noted."""
    return f"begun {begun} given up {given_up}"


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("it always fails")


def whom() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


@server.tool()
def ask(answer: Annotated[ElicitationResult[Name], Resolve(whom)]) -> str:
    """Asks the user for a name; the SDK does it in the way of the caller's era."""
    return f"Hello {answer.data.name}" if answer.action == "accept" else f"user: {answer.action}"


@server.tool()
async def grow(ctx: Context) -> str:
    """Adds a tool named `grown`, and says so to the clients of both eras."""

    def grown() -> str:
        return "grown"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_tool_list_changed()
    return "there is a new tool"


@server.resource("echo://greeting")
def greeting() -> str:
    """A fixed text."""
    return "hello"


@server.resource("echo://say/{word}")
def say(word: str) -> str:
    """A text that depends on its address."""
    return f"you said {word}"


@server.prompt()
def greet(name: str) -> str:
    """A greeting to be written."""
    return f"Write a greeting to {name}."


def serve(app, port: int) -> None:
    """Serves on loopback; the socket listens before READY is printed."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(128)
    print(f"READY {sock.getsockname()[1]}", file=sys.stderr, flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[sock]))


if __name__ == "__main__":
    how = sys.argv[1]
    if how == "stdio":
        server.run("stdio")
    else:
        serve(server.sse_app() if how == "sse" else server.streamable_http_app(), int(sys.argv[2]))
