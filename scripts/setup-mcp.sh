#!/bin/sh
# Installs MCP servers and clients that others wrote, for the tests of helve-mcp, at the versions
# pinned in scripts/mcp-peers.
# Usage: scripts/setup-mcp.sh DIR
#
# What lands there:
#   DIR/bin/node            Node 22, which the conformance suite and the inspector need
#   DIR/node_modules        the npm packages; their commands are in DIR/node_modules/.bin
#   DIR/oauth/node_modules  oidc-provider, an authorization server
#   DIR/python/bin          fastmcp, mcp 2 and the mcp-server-* packages
#   DIR/python-ws/bin       mcp 1, the last with WebSocket
set -eu

dir=${1:?usage: scripts/setup-mcp.sh DIR}
pins=$(cd "$(dirname "$0")/mcp-peers" && pwd)

marker="$dir/helve-mcp-peers"
wanted=$(cat "$pins/package-lock.json" "$pins/oauth/package-lock.json" "$pins/python.txt" "$pins/python-ws.txt" "$0" | sha256sum)
is_done() { [ -f "$marker" ] && [ "$(cat "$marker")" = "$wanted" ]; }
is_done && exit 0
mkdir -p "$dir/bin"
# Tests run side by side, and each may call this: one installs, the others wait for it.
exec 9>"$dir/lock"
flock 9
is_done && exit 0
rm -f "$marker"

mkdir -p "$dir/oauth"
cp "$pins/package.json" "$pins/package-lock.json" "$dir"
cp "$pins/oauth/package.json" "$pins/oauth/package-lock.json" "$dir/oauth"
# No package's own install script runs: none is needed.
for folder in "$dir" "$dir/oauth"; do
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
done
for arch in x64 arm64; do
    if [ -x "$dir/node_modules/node-linux-$arch/bin/node" ]; then
        ln -sfn "../node_modules/node-linux-$arch/bin/node" "$dir/bin/node"
    fi
done
"$dir/bin/node" --version >/dev/null

for venv in python python-ws; do
    python3 -m venv --clear "$dir/$venv"
    "$dir/$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --requirement "$pins/$venv.txt"
    # Compiled now, so that the first test is not the one that waits for it.
    "$dir/$venv/bin/python" -m compileall -q "$dir/$venv/lib" >/dev/null 2>&1 || true
done

# Last, so that an interrupted set-up is done again.
echo "$wanted" > "$marker"
