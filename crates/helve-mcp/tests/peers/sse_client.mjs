// The npm SDK's client of legacy HTTP+SSE; see npm_client.mjs.
import { fail, headers, run, sdk } from './npm_client.mjs';

const { SSEClientTransport } = sdk('client/sse.js');
await run((url) => new SSEClientTransport(url, { requestInit: { headers } })).catch(fail);
