#!/bin/sh
# Installs the mail, calendar and contacts servers that the tests of helve-office talk to: Dovecot and openssl from
# Debian, Cyrus unpacked beside it (Debian does not allow both), Radicale and the SMTP sink's libraries in a virtual
# environment. scripts/office-servers starts them.
# Usage: scripts/setup-office.sh DIR
set -eu

dir=${1:?usage: scripts/setup-office.sh DIR}
servers=$(cd "$(dirname "$0")/office-servers" && pwd)
PATH=$PATH:/usr/sbin:/sbin

marker="$dir/helve-office-servers"
wanted=$(cat "$servers/requirements.txt" "$0" | sha256sum)
is_done() { [ -f "$marker" ] && [ "$(cat "$marker")" = "$wanted" ] && command -v dovecot >/dev/null; }
is_done && exit 0
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
is_done && exit 0
rm -f "$marker"

if ! command -v dovecot >/dev/null || ! [ -e /usr/lib/dovecot/lmtp ] || ! command -v openssl >/dev/null; then
    if [ "$(id -u)" != 0 ]; then
        echo 'there is no Dovecot, and only root can install it: apt-get install dovecot-imapd dovecot-lmtpd openssl' >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet --quiet
    apt-get install --yes --quiet --no-install-recommends dovecot-imapd dovecot-lmtpd openssl >/dev/null
    # The package starts a server of its own, which no test uses.
    service dovecot stop >/dev/null 2>&1 || true
fi

python3 -m venv --clear "$dir/python"
"$dir/python/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$servers/requirements.txt"

# Cyrus and its libraries: unpacked, never installed.
mkdir -p "$dir/cyrus" "$dir/debs"
(cd "$dir/debs" && apt-get -qq -o APT::Sandbox::User=root download \
    cyrus-common cyrus-imapd cyrus-caldav libical3 libxapian30 libclamav12 libmspack0 libzephyr4 libpcre3 libshp2)
for package in "$dir"/debs/*.deb; do dpkg-deb -x "$package" "$dir/cyrus"; done
rm -rf "$dir/debs"

# Last, so that an interrupted set-up is done again.
echo "$wanted" > "$marker"
