"""The Python SDK's client with its own OAuth: finds the authorization server, registers, signs in (PKCE, redirect to a
listener on loopback), and calls tools. Prints what it got as JSON.

Usage: oauth_client.py URL TOOL...
"""

import asyncio
import base64
import json
import sys
from urllib.parse import parse_qsl, urlsplit

import httpx
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import OAuthClientMetadata


class Storage:
    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def main() -> dict:
    url, tools = sys.argv[1], sys.argv[2:]
    asked, arrived = [], asyncio.Queue()

    async def answer(reader, writer):
        line = (await reader.readline()).decode().split(" ")
        await arrived.put(dict(parse_qsl(urlsplit(line[1]).query)))
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    redirect = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/callback"

    async def browse(address: str):
        asked.append(dict(parse_qsl(urlsplit(address).query)))
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            (await browser.get(address)).raise_for_status()

    async def callback():
        got = await arrived.get()
        assert "code" in got, got
        return AuthorizationCodeResult(code=got["code"], state=got.get("state"), iss=got.get("iss"))

    storage = Storage()
    metadata = OAuthClientMetadata(
        client_name="python-sdk",
        redirect_uris=[redirect],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(url, metadata, storage, redirect_handler=browse, callback_handler=callback)
    results = {}
    async with create_mcp_http_client(auth=auth) as http:
        async with streamable_http_client(url, http_client=http) as (read, write, *_):
            async with ClientSession(read, write) as session:
                await session.initialize()
                listed = [tool.name for tool in (await session.list_tools()).tools]
                for tool in tools:
                    try:
                        called = await session.call_tool(tool, {})
                        results[tool] = called.model_dump(mode="json", by_alias=True, exclude_none=True)
                    except Exception as error:
                        results[tool] = {"error": repr(error)}
    token = storage.tokens.access_token
    part = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return {"tools": listed, "results": results, "asked": asked, "claims": claims, "token": token,
            "isRegistered": bool(storage.client.client_id)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
