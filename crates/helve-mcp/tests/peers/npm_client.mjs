// What the npm SDK's clients here share: connect, list the tools, call one, print it all as JSON.
// Usage of each: node X_client.mjs URL [TOOL [ARGS_JSON]]
// MCP_TOKEN is sent as bearer token; MCP_ELICIT is the JSON content that forms are accepted with; MCP_PAGES is
// what is said to pages that are to be opened: accept, decline or cancel.
// The SDK is looked for in HELVE_MCP_PEERS, where scripts/setup-mcp.sh put it.
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import process from 'node:process';

const require = createRequire(resolve(process.env.HELVE_MCP_PEERS, 'package.json'));
export const sdk = (path) => require(`@modelcontextprotocol/sdk/${path}`);
export const headers = process.env.MCP_TOKEN ? { Authorization: `Bearer ${process.env.MCP_TOKEN}` } : {};

export async function run(transportTo) {
  const [url, tool, args] = process.argv.slice(2);
  const { Client } = sdk('client/index.js');
  const elicit = process.env.MCP_ELICIT;
  const pages = process.env.MCP_PAGES;
  const opened = [];
  const elicitation = { ...(elicit && { form: {} }), ...(pages && { url: {} }) };
  const client = new Client(
    { name: 'npm-sdk', version: '1' },
    { capabilities: elicit || pages ? { elicitation } : {} },
  );
  if (elicit || pages) {
    const { ElicitRequestSchema } = sdk('types.js');
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      if (params.mode !== 'url') return { action: 'accept', content: JSON.parse(elicit) };
      opened.push(params.url);
      return { action: pages };
    });
  }
  await client.connect(transportTo(new URL(url)));
  const out = { server: client.getServerVersion(), capabilities: client.getServerCapabilities() };
  out.tools = (await client.listTools()).tools;
  if (tool) {
    out.progress = [];
    const params = { name: tool, arguments: JSON.parse(args ?? '{}') };
    out.result = await client.callTool(params, undefined, { onprogress: (p) => out.progress.push(p) });
  }
  out.pages = opened;
  await client.close();
  console.log(JSON.stringify(out));
}

export function fail(error) {
  console.log(JSON.stringify({ error: String(error?.message ?? error), code: error?.code }));
  process.exit(1);
}
