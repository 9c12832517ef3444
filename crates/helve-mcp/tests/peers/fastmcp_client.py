"""FastMCP's client: connects, lists the tools, calls one, prints it all as JSON.

Usage: fastmcp_client.py URL [TOOL [ARGS_JSON]]
MCP_MODE is auto (as by default), legacy or 2026-07-28. MCP_TOKEN is sent as bearer token; MCP_ELICIT
is the JSON content that elicitations are accepted with; MCP_PAGES is what is said to pages that are to be
opened: accept, decline or cancel. A URL that ends in /sse speaks SSE.
"""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StreamableHttpTransport


def plain(model) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main() -> dict:
    url = sys.argv[1]
    tool = sys.argv[2] if len(sys.argv) > 2 else None
    args = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    elicit = os.environ.get("MCP_ELICIT")
    pages = os.environ.get("MCP_PAGES")
    opened = []
    progress = []

    async def on_elicit(message, response_type, params, context):
        if getattr(params, "url", None):
            opened.append(params.url)
            return ElicitResult(action=pages or "decline")
        return ElicitResult(action="accept", content=json.loads(elicit))

    async def on_progress(done, total, message):
        progress.append({"progress": done, "total": total, "message": message})

    transport = SSETransport if url.endswith("/sse") else StreamableHttpTransport
    client = Client(
        transport(url),
        auth=os.environ.get("MCP_TOKEN"),
        mode=os.environ.get("MCP_MODE", "auto"),
        elicitation_handler=on_elicit if elicit or pages else None,
        progress_handler=on_progress,
    )
    async with client:
        out = {"protocolVersion": client.session.protocol_version}
        out["tools"] = [plain(each) for each in await client.list_tools()]
        if tool:
            out["result"] = plain(await client.call_tool_mcp(tool, args))
            out["progress"] = progress
            out["pages"] = opened
        return out


if __name__ == "__main__":
    try:
        print(json.dumps(asyncio.run(main())))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        sys.exit(1)
