// An authorization server on loopback: npm's oidc-provider, with dynamic registration, PKCE, resource
// indicators and tokens as JWT. Whoever comes is `ada`, who agrees to everything that is asked.
// Usage: node oauth_server.mjs SCOPE...
// It says `READY port` on standard error. The package is looked for in HELVE_MCP_PEERS, where
// scripts/setup-mcp.sh put it.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { resolve } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

const module = resolve(process.env.HELVE_MCP_PEERS, 'oauth/node_modules/oidc-provider/lib/index.js');
const { default: Provider } = await import(pathToFileURL(module));
const scopes = process.argv.slice(2);

const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });
const jwks = { keys: [{ ...key, kid: 'a', alg: 'ES256', use: 'sig' }] };

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    jwks,
    scopes: ['openid', 'offline_access', ...scopes],
    cookies: { keys: ['for tests alone'] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    pkce: { required: () => true },
    // Clients register with the scopes that they know of then, and later ask the person for more.
    extraClientMetadata: { properties: ['later'], validator: (_, key, value, metadata) => { metadata.scope = undefined; } },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        // Each token is for the resource that its client named, and for no other.
        getResourceServerInfo: (_, resource) => ({
          scope: scopes.join(' '),
          audience: resource,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 300,
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  });
  const answer = provider.callback();
  server.on('request', (request, response) => {
    if (request.url.startsWith('/interaction/')) agree(provider, request, response).catch(() => response.end());
    else answer(request, response);
  });
  console.error(`READY ${port}`);
});

// What a person does who signs in and agrees.
async function agree(provider, request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    return provider.interactionFinished(request, response, { login: { accountId: 'ada' } });
  }
  const known = grantId && (await provider.Grant.find(grantId));
  const grant = known || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingResourceScopes } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
  for (const [resource, asked] of Object.entries(missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, asked.join(' '));
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}
