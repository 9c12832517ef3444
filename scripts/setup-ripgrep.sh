#!/bin/sh
# Installs ripgrep, which the benchmark of `file-search` is measured against. Takes root, and Debian
# or something like it.
set -eu

if command -v rg >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo 'ripgrep is not installed; as root: apt-get install ripgrep' >&2
    exit 1
fi
apt-get update --quiet
apt-get install --yes --no-install-recommends ripgrep
