// The TypeScript SDK's client: lists the tools, makes calls one after the other, and prints what a program that
// uses the SDK gets of each: its result, or what was thrown.
// Usage: node calls.mjs PACKAGE MODE TARGET_JSON CALLS_JSON
//   PACKAGE  mcp-ts-current and @modelcontextprotocol/client (version 2), @modelcontextprotocol/sdk and
//            mcp-ts-previous (version 1)
//   MODE     legacy or auto; version 1 knows only legacy
//   TARGET   {"url", "token"} or {"command", "args", "cwd", "env"}
//   CALLS    [{"name", "arguments"}, …]
// The SDK is looked for in HELVE_MCP_PEERS, where scripts/setup-mcp.sh put it.
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import process from 'node:process';

const require = createRequire(resolve(process.env.HELVE_MCP_PEERS, 'package.json'));
const [name, mode, target, calls] = process.argv.slice(2);
const isFirst = name.endsWith('sdk') || name.endsWith('previous');
const { Client } = isFirst ? require(`${name}/client/index.js`) : require(name);
const { StreamableHTTPClientTransport } = isFirst ? require(`${name}/client/streamableHttp.js`) : require(name);
const { StdioClientTransport } = isFirst ? require(`${name}/client/stdio.js`) : require(`${name}/stdio`);

const { url, token, ...program } = JSON.parse(target);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const transport = url
  ? new StreamableHTTPClientTransport(new URL(url), { requestInit })
  : new StdioClientTransport({ ...program, stderr: 'ignore' });
const options = mode === 'legacy' ? {} : { versionNegotiation: { mode } };
const client = new Client({ name: 'calls', version: '1' }, options);
await client.connect(transport);
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const said = [];
for (const call of JSON.parse(calls)) {
  try {
    said.push({ result: await client.callTool(call) });
  } catch (error) {
    said.push({ thrown: String(error?.message ?? error), code: error?.code });
  }
}
await client.close();
console.log(JSON.stringify({ tools, said }));
process.exit(0);
