// The npm SDK's WebSocket client; see npm_client.mjs.
import { fail, headers, run, sdk } from './npm_client.mjs';

// The SDK opens `new WebSocket(url, 'mcp')`, which has no place for a header. Node's own class has.
const Plain = globalThis.WebSocket;
globalThis.WebSocket = class extends Plain {
  constructor(url, protocols) {
    super(url, { protocols, headers });
  }
};
const { WebSocketClientTransport } = sdk('client/websocket.js');
await run((url) => new WebSocketClientTransport(url)).catch(fail);
