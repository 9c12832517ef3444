#!/bin/sh
# Runs the MCP inspector's command line, which scripts/setup-mcp.sh installed in HELVE_MCP_PEERS.
# Usage: inspector.sh URL --protocol-era legacy|auto|modern --method tools/call --tool-name echo \
#            --tool-arg message=hi --format json [--header 'Authorization: Bearer TOKEN']
set -eu

peers=${HELVE_MCP_PEERS:?run scripts/setup-mcp.sh DIR, and set HELVE_MCP_PEERS to DIR}
PATH="$peers/bin:$PATH"
# It keeps a catalogue and logins in the home; a test gets a home of its own.
HOME=$(mktemp -d)
export PATH HOME
trap 'rm -rf "$HOME"' EXIT
"$peers/bin/node" "$peers/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js" --cli "$@" </dev/null
