#!/usr/bin/env bash
# Prints where the sandbox's tests are, built.
set -euo pipefail
cd "$(dirname "$0")/.."
# The whole workspace, as the other tests are built: one crate alone would be built anew.
cargo test --workspace --no-run --locked --message-format=json |
  python3 -c 'import json,sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == "it" and "helve-sandbox" in message["package_id"]:
        print(message["executable"])'
