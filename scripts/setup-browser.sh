#!/bin/sh
# Installs Debian's Chromium, for the tests of web-scrape's browser. Does nothing where there is one.
# Usage: scripts/setup-browser.sh
set -eu

command -v chromium >/dev/null && exit 0
if [ "$(id -u)" != 0 ]; then
    echo 'there is no chromium, and only root can install it: apt-get install chromium' >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet --quiet
apt-get install --yes --quiet --no-install-recommends chromium >/dev/null
