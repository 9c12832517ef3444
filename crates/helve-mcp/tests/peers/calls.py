"""The Python SDK's client, or FastMCP's: lists the tools, makes calls one after the other, and prints what a program
that uses the SDK gets of each: its result, or what was raised.

Usage: calls.py mcp|fastmcp MODE TARGET_JSON CALLS_JSON, as calls.mjs. `mcp` works with versions 1 and 2 of the SDK;
MODE counts for FastMCP alone.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack


def plain(model) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def outcome(call) -> dict:
    try:
        return {"result": await call}
    except Exception as error:
        return {"thrown": str(error), "code": getattr(getattr(error, "error", None), "code", None)}


async def with_mcp(target, calls) -> dict:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async with AsyncExitStack() as stack:
        if "url" in target:
            import httpx
            from mcp.client import streamable_http

            headers = {"Authorization": f"Bearer {target['token']}"}
            if hasattr(streamable_http, "streamablehttp_client"):
                opened = streamable_http.streamablehttp_client(target["url"], headers=headers)
            else:
                try:
                    import httpx2 as httpx
                except ImportError:
                    pass
                http = await stack.enter_async_context(httpx.AsyncClient(headers=headers))
                opened = streamable_http.streamable_http_client(target["url"], http_client=http)
        else:
            opened = stdio_client(StdioServerParameters(**target))
        read, write, *_ = await stack.enter_async_context(opened)
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]

        async def one(call):
            return plain(await session.call_tool(call["name"], call["arguments"]))

        return {"tools": tools, "said": [await outcome(one(call)) for call in calls]}


async def with_fastmcp(mode, target, calls) -> dict:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    if "url" in target:
        client = Client(StreamableHttpTransport(target["url"]), auth=target["token"], mode=mode)
    else:
        client = Client(StdioTransport(**target), mode=mode)
    async with client:
        tools = [tool.name for tool in await client.list_tools()]

        # What FastMCP gives by itself, which raises errors, and what it knows if it is asked not to.
        async def one(call):
            told = await client.call_tool(call["name"], call["arguments"], raise_on_error=False)
            meta = getattr(told, "meta", None)
            result = {"content": [plain(part) for part in told.content], "isError": told.is_error}
            if told.structured_content is not None:
                result["structuredContent"] = told.structured_content
            return {**result, **({"_meta": meta} if meta else {})}

        return {"tools": tools, "said": [await outcome(one(call)) for call in calls]}


async def main() -> dict:
    kind, mode, target, calls = sys.argv[1:]
    target, calls = json.loads(target), json.loads(calls)
    return await (with_mcp(target, calls) if kind == "mcp" else with_fastmcp(mode, target, calls))


print(json.dumps(asyncio.run(main())))
