#!/bin/sh
# Runs the MCP conformance suite, which scripts/setup-mcp.sh installed in HELVE_MCP_PEERS.
# Usage: conformance.sh server --url URL --requirements 2025-11-25 -o OUT
#        conformance.sh client --command 'PROGRAM ARGS' --requirements 2026-07-28 -o OUT
#        conformance.sh list --requirements 2026-07-28
set -eu

peers=${HELVE_MCP_PEERS:?run scripts/setup-mcp.sh DIR, and set HELVE_MCP_PEERS to DIR}
# The suite starts `node` by name in places, and must find this one.
PATH="$peers/bin:$PATH"
export PATH
exec "$peers/bin/node" "$peers/node_modules/@modelcontextprotocol/conformance/dist/index.js" "$@"
