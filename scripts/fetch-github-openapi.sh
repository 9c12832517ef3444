#!/bin/sh
# Fetches GitHub's OpenAPI document, a real one of over a thousand operations, for the tests.
# Usage: scripts/fetch-github-openapi.sh FILE
set -eu

file=${1:?usage: scripts/fetch-github-openapi.sh FILE}
package=@octokit/openapi@23.0.2
member=package/generated/api.github.com.json

[ -f "$file" ] && exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" "$package" >/dev/null
mkdir -p "$(dirname "$file")"
tar -xzf "$folder"/*.tgz -C "$folder" "$member"
# Last, so that an interrupted download is done again.
mv "$folder/$member" "$file"
