"""An echo server made with FastMCP: echo_fastmcp.py stdio|sse|http [PORT]

Over HTTP it answers both eras at /mcp, over SSE at /sse. It prints `READY port` on stderr once the
port takes connections; port 0 picks one. With MCP_TOKEN set it asks for that bearer token.
"""

import asyncio
import os
import socket
import sys

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.server.auth import StaticTokenVerifier
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ToolAnnotations,
    ToolListChangedNotification,
)
from pydantic import BaseModel

token = os.environ.get("MCP_TOKEN")
auth = StaticTokenVerifier({token: {"client_id": "test", "scopes": []}}) if token else None
server = FastMCP(
    "echo-fastmcp", version="1.2.3", instructions="Echoes what it is told.", auth=auth
)
MODERN = "2026-07-28"


class Sum(BaseModel):
    total: int


class Name(BaseModel):
    name: str


@server.tool(annotations=ToolAnnotations(read_only_hint=True, title="Echo"))
def echo(message: str) -> str:
    """Gives the message back."""
    return message


@server.tool
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(total=a + b)


@server.tool
async def slow(seconds: float, ctx: Context) -> str:
    """Sleeps, and reports progress ten times a second."""
    steps = max(1, int(seconds * 10))
    for step in range(steps):
        await asyncio.sleep(seconds / steps)
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return f"slept {seconds}"


@server.tool
def fail() -> str:
    """Always fails."""
    raise ValueError("it always fails")


@server.tool
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Asks the user for a name, in the way of the caller's era."""
    if ctx.request_context.protocol_version != MODERN:
        answer = await ctx.elicit("What is your name?", Name)
        return f"Hello {answer.data.name}" if answer.action == "accept" else f"user: {answer.action}"
    answers = ctx.input_responses
    if not answers:
        params = ElicitRequestFormParams(
            message="What is your name?", requested_schema=Name.model_json_schema()
        )
        return InputRequiredResult(
            input_requests={"name": ElicitRequest(params=params)}, request_state="round-1"
        )
    answer = answers["name"]
    return f"Hello {answer.content['name']}" if answer.action == "accept" else f"user: {answer.action}"


@server.tool
async def grow(ctx: Context) -> str:
    """Adds a tool named `grown`, and says so to a client of the session era."""

    def grown() -> str:
        return "grown"

    server.tool(grown)
    if ctx.request_context.protocol_version != MODERN:
        await ctx.send_notification(ToolListChangedNotification())
    return "there is a new tool"


@server.resource("echo://greeting")
def greeting() -> str:
    """A fixed text."""
    return "hello"


@server.resource("echo://say/{word}")
def say(word: str) -> str:
    """A text that depends on its address."""
    return f"you said {word}"


@server.prompt
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
        server.run("stdio", show_banner=False)
    else:
        serve(server.http_app(transport=how), int(sys.argv[2]))
