#!/bin/sh
# Installs the ordinary programs that the tests run, from Debian's packages. Does nothing where they are.
# Usage: scripts/setup-programs.sh
set -eu

missing=
# need COMMAND PACKAGE
need() { command -v "$1" >/dev/null || missing="$missing $2"; }
need bash bash
need curl curl
need dbus-run-session dbus
need gcc gcc
need git git
need gnome-keyring-daemon gnome-keyring
need node nodejs
need npm npm
need prometheus prometheus
need secret-tool libsecret-tools
need setpriv util-linux
need unshare util-linux
# The system's own, whatever else is in PATH: boxes look there.
[ -x /usr/bin/python3 ] || missing="$missing python3"
# Debian's Python comes without what `python3 -m venv` needs.
python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "programs are missing, and only root can install them: apt-get install$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet --quiet
# shellcheck disable=SC2086 # each is a word
apt-get install --yes --quiet --no-install-recommends $missing >/dev/null
