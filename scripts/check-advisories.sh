#!/usr/bin/env bash
# Checks the dependencies against RustSec's advisories, wherever their database can be had, and says how old it is.
# Usage: scripts/check-advisories.sh
#
# The database is a git repository. It is fetched anew; where that fails, the copy of an earlier run is used; where
# there is none, nothing is checked, and the last line says so. HELVE_ADVISORY_DB names another place to fetch it
# from, such as a mirror in your network.
set -euo pipefail
cd "$(dirname "$0")/.."

cache="${XDG_CACHE_HOME:-$HOME/.cache}/helve/advisories"
home=https://github.com/RustSec/advisory-db
if [ -n "${HELVE_ADVISORY_DB:-}" ]; then
    # cargo-deny takes only addresses with a host; git itself goes wherever it is sent.
    export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.$HELVE_ADVISORY_DB.insteadOf" GIT_CONFIG_VALUE_0="$home"
fi
config=target/deny-advisories.toml
mkdir -p "$cache" target
# The rules are deny.toml's; where the database lies is this machine's.
{ cat deny.toml; printf '\n[advisories]\nversion = 2\ndb-path = "%s"\ndb-urls = ["%s"]\n' "$cache" "$home"; } > "$config"

log=target/advisories.log
fetched() { timeout 120 cargo deny --config "$config" fetch db >"$log" 2>&1; }
newest() { find "$cache" -mindepth 1 -maxdepth 1 -type d -name 'advisory-db-*' -print -quit; }

if fetched; then
    how='fetched now'
elif [ -n "$(newest)" ]; then
    how='of an earlier run: it cannot be fetched now'
else
    echo "ADVISORIES NOT CHECKED: the database cannot be had here (${HELVE_ADVISORY_DB:-$home}); $log says why"
    exit 0
fi
written=$(git -C "$(newest)" log -1 --format=%ct)
age=$(( ($(date +%s) - written) / 86400 ))
echo "advisory database: $age days old, of $(date -u -d "@$written" +%F), $how"
cargo fetch --locked --quiet
cargo deny --config "$config" --offline check advisories
