#!/bin/sh
# Installs Debian's searx, the server that SearXNG is a fork of and with whose API it began, for the test of
# web-search. SearXNG itself is in no package registry. Does nothing where it is.
# Usage: scripts/setup-searx.sh
set -eu

command -v searx-run >/dev/null && exit 0
if [ "$(id -u)" != 0 ]; then
    echo 'there is no searx, and only root can install it: apt-get install searx' >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet --quiet
apt-get install --yes --quiet --no-install-recommends searx >/dev/null
