// The npm SDK's client of streamable HTTP, session era; see npm_client.mjs.
import { fail, headers, run, sdk } from './npm_client.mjs';

const { StreamableHTTPClientTransport } = sdk('client/streamableHttp.js');
await run((url) => new StreamableHTTPClientTransport(url, { requestInit: { headers } })).catch(fail);
