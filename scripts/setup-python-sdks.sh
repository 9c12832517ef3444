#!/bin/sh
# Makes a Python environment with the providers' SDKs, for the conformance test of the formats.
# Usage: scripts/setup-python-sdks.sh DIR
set -eu

dir=${1:?usage: scripts/setup-python-sdks.sh DIR}

# Pinned: what we claim to fit are these versions' types.
anthropic=2.8.0
openai=3.49.0
google_genai=3.1.0
mcp=2.3.0

marker="$dir/helve-sdks"
wanted="anthropic $anthropic openai $openai google-genai $google_genai mcp $mcp"
if [ -f "$marker" ] && [ "$(cat "$marker")" = "$wanted" ]; then
    exit 0
fi

python3 -m venv "$dir"
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check \
    "anthropic==$anthropic" "openai==$openai" "google-genai==$google_genai" "mcp==$mcp"
# Last, so that an interrupted set-up is done again.
echo "$wanted" > "$marker"
