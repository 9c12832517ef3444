// The npm SDK's client with its own OAuth: finds the authorization server, registers, signs in (PKCE, redirect to
// a listener on loopback), and calls tools. Prints what it got as JSON.
// Usage: node oauth_client.mjs URL TOOL...
// The SDK is looked for in HELVE_MCP_PEERS, where scripts/setup-mcp.sh put it.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import process from 'node:process';

const require = createRequire(resolve(process.env.HELVE_MCP_PEERS, 'package.json'));
const sdk = (path) => require(`@modelcontextprotocol/sdk/${path}`);
const { Client } = sdk('client/index.js');
const { StreamableHTTPClientTransport } = sdk('client/streamableHttp.js');
const { UnauthorizedError } = sdk('client/auth.js');

const [url, ...tools] = process.argv.slice(2);
let arrived;
const listener = createServer((request, response) => {
  arrived?.(new URL(request.url, 'http://127.0.0.1').searchParams.get('code'));
  response.end('You can close this page.');
});
await new Promise((ready) => listener.listen(0, '127.0.0.1', ready));
const redirectUrl = `http://127.0.0.1:${listener.address().port}/callback`;

// A browser: it follows redirects and keeps cookies, by host and path as browsers do.
async function browse(address) {
  const cookies = new Map();
  for (let next = new URL(address), hops = 0; next && hops < 20; hops++) {
    const cookie = [...cookies.values()].filter((one) => next.pathname.startsWith(one.path)).map((one) => one.pair).join('; ');
    const answer = await fetch(next, { redirect: 'manual', headers: { cookie } });
    for (const set of answer.headers.getSetCookie()) {
      const [pair, ...rest] = set.split(';').map((part) => part.trim());
      const path = rest.find((part) => part.startsWith('path='))?.slice(5) ?? '/';
      cookies.set(pair.split('=')[0] + path, { pair, path });
    }
    const location = answer.headers.get('location');
    if (!location && answer.status >= 400) throw new Error(`the browser got ${answer.status}: ${await answer.text()}`);
    next = location && new URL(location, next);
  }
}

const asked = [];
let client, tokens, verifier, code;
const provider = {
  redirectUrl,
  clientMetadata: {
    client_name: 'npm-sdk',
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  },
  clientInformation: () => client,
  saveClientInformation: (made) => void (client = made),
  tokens: () => tokens,
  saveTokens: (given) => void (tokens = given),
  saveCodeVerifier: (made) => void (verifier = made),
  codeVerifier: () => verifier,
  redirectToAuthorization: async (address) => {
    asked.push(Object.fromEntries(address.searchParams));
    const got = new Promise((go) => (arrived = go));
    await browse(address);
    code = await got;
  },
};

let mcp;
async function connect() {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  mcp = new Client({ name: 'npm-sdk', version: '1' });
  try {
    await mcp.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(code);
    await connect();
  }
}

async function call(name) {
  try {
    return await mcp.callTool({ name, arguments: {} });
  } catch (error) {
    // It has signed in for more, and goes on with that.
    if (!(error instanceof UnauthorizedError)) return { error: String(error) };
    await mcp.transport.finishAuth(code);
    await connect();
    return mcp.callTool({ name, arguments: {} });
  }
}

try {
  await connect();
  const out = { tools: (await mcp.listTools()).tools.map((tool) => tool.name), results: {} };
  for (const tool of tools) out.results[tool] = await call(tool);
  const claims = JSON.parse(Buffer.from(tokens.access_token.split('.')[1], 'base64url'));
  console.log(JSON.stringify({ ...out, asked, claims, token: tokens.access_token, isRegistered: Boolean(client.client_id) }));
  process.exit(0);
} catch (error) {
  console.error(error);
  process.exit(1);
}
