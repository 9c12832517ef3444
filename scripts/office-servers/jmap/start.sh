#!/usr/bin/env bash
# Brings up a real JMAP server (Cyrus) with IMAP and an SMTP sink beside it, on loopback.
#
#   start.sh WORKDIR
#
# Debian's cyrus-imapd cannot be installed beside dovecot-imapd, so its packages are only
# downloaded and unpacked below WORKDIR. Nothing is installed, no package script runs.
# Environment: PORT_BASE (24000; takes +11 .. +13), DOMAIN, FIXTURE_USERS and PYTHON as in ../start.sh; CYRUS_ROOT,
# where its packages are unpacked already.
set -euo pipefail
umask 022
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../common.sh"

[ $# -eq 1 ] || die "usage: start.sh WORKDIR"
mkdir -p "$1"
WORK=$(cd "$1" && pwd)
case $WORK in *[[:space:]]*) die "WORKDIR must not hold blanks: $WORK" ;; esac
[ ${#WORK} -le 80 ] || die "WORKDIR is too long for a socket path: $WORK"

PORT_BASE=${PORT_BASE:-24000}
DOMAIN=${DOMAIN:-example.test}
FIXTURE_USERS=${FIXTURE_USERS:-alice:alice-pw bob:bob-pw carol:carol-pw}
JMAP_PORT=$((PORT_BASE + 11))
IMAP_PORT=$((PORT_BASE + 12))
RELAY_PORT=$((PORT_BASE + 13))

mkdir -p "$WORK"/{run,log,debs,root,spool,search,sock,outbox,jwt/default/HS256} \
  "$WORK"/conf/{backup,db,lock,log,msg,proc,ptclient,quota,sieve,socket,sync,user}
for s in auth cyrus smtp; do
  if is_ours $s; then die "$s already runs here as process $PID; run stop.sh $WORK first"; fi
done
for p in $JMAP_PORT $IMAP_PORT $RELAY_PORT; do
  port_free "$p" || die "port $p is taken; set another PORT_BASE"
done

ROOT=${CYRUS_ROOT:-$WORK/root}
BIN=$ROOT/usr/lib/cyrus/bin
export LD_LIBRARY_PATH
LD_LIBRARY_PATH=$(echo "$ROOT"/{usr/lib,lib}/"$(uname -m)-linux-gnu" | tr ' ' ':')
if [ ! -x "$BIN/httpd" ]; then
  (cd "$WORK/debs" && apt-get -qq -o APT::Sandbox::User=root download \
    cyrus-common cyrus-imapd cyrus-caldav libical3 libxapian30 libclamav12 libmspack0 libzephyr4 libpcre3 libshp2) \
    >"$WORK/log/apt.log" 2>&1 || die "download failed; see $WORK/log/apt.log"
  for d in "$WORK"/debs/*.deb; do dpkg-deb -x "$d" "$ROOT"; done
fi
missing=$(ldd "$BIN/master" "$BIN/httpd" "$BIN/imapd" "$BIN/lmtpd" | grep 'not found' | sort -u || true)
[ -z "$missing" ] || die "libraries are missing: $missing"

if [ -z "${PYTHON:-}" ]; then
  PYTHON=$WORK/venv/bin/python
  if [ ! -x "$PYTHON" ]; then
    python3 -m venv "$WORK/venv"
    "$PYTHON" -m pip install --quiet --disable-pip-version-check -r "$HERE/../requirements.txt"
  fi
fi

: >"$WORK/users"
for pair in $FIXTURE_USERS; do
  echo "${pair%%:*}@$DOMAIN:{PLAIN}${pair#*:}" >>"$WORK/users"
done
[ -s "$WORK/jwt/default/HS256/default" ] || openssl rand -base64 48 | tr -d '\n' >"$WORK/jwt/default/HS256/default"

if [ "$(id -u)" -eq 0 ]; then RUN_USER=nobody; else RUN_USER=$(id -un); fi
RUN_GROUP=$(id -gn "$RUN_USER")
for t in imapd.conf cyrus.conf; do
  sed -e "s|@WORK@|$WORK|g" -e "s|@BIN@|$BIN|g" -e "s|@DOMAIN@|$DOMAIN|g" \
    -e "s|@JMAP_PORT@|$JMAP_PORT|g" -e "s|@IMAP_PORT@|$IMAP_PORT|g" -e "s|@RELAY_PORT@|$RELAY_PORT|g" \
    -e "s|@RUN_USER@|$RUN_USER|g" -e "s|@RUN_GROUP@|$RUN_GROUP|g" "$HERE/$t.in" >"$WORK/$t"
done
if [ "$(id -u)" -eq 0 ]; then chown -R "$RUN_USER:$RUN_GROUP" "$WORK"/{conf,spool,search,sock,run}; fi

"$PYTHON" "$HERE/auth.py" "$WORK" >"$WORK/log/auth.log" 2>&1 </dev/null &
save_pid auth $!
"$PYTHON" "$HERE/../smtp_sink.py" --work "$WORK" --domain "$DOMAIN" --lmtp "$WORK/sock/lmtp" \
  --relay-port "$RELAY_PORT" --max-rcpt "${MAX_RCPT:-50}" --max-size "${MAX_SIZE:-26214400}" \
  >"$WORK/log/smtp.log" 2>&1 </dev/null &
save_pid smtp $!
"$BIN/master" -C "$WORK/imapd.conf" -M "$WORK/cyrus.conf" -L "$WORK/log/cyrus.log" -p "$WORK/run/cyrus.own" \
  >"$WORK/log/cyrus.out" 2>&1 </dev/null &
save_pid cyrus $!

trap '"$HERE/stop.sh" "$WORK" >&2 || true' ERR EXIT
wait_port smtp "$RELAY_PORT"
wait_port cyrus "$IMAP_PORT"
wait_port cyrus "$JMAP_PORT"
# The first IMAP login makes the account.
for pair in $FIXTURE_USERS; do
  exec 3<>"/dev/tcp/127.0.0.1/$IMAP_PORT"
  printf 'a LOGIN "%s" "%s"\r\nb LOGOUT\r\n' "${pair%%:*}" "${pair#*:}" >&3
  timeout 10 grep -q '^a OK' <&3 || die "login of ${pair%%:*} failed"
  exec 3<&- 3>&-
done
trap - ERR EXIT

cat >"$WORK/endpoints.json" <<J
{
  "domain": "$DOMAIN",
  "jmap": {"session": "http://127.0.0.1:$JMAP_PORT/.well-known/jmap"},
  "caldav": {"url": "http://127.0.0.1:$JMAP_PORT/dav/"},
  "imap": {"host": "127.0.0.1", "port": $IMAP_PORT, "tls": "none"},
  "sent_log": "$WORK/log/sent.jsonl",
  "outbox": "$WORK/outbox",
  "users": [$(for p in $FIXTURE_USERS; do printf '{"login": "%s", "mail": "%s@%s", "password": "%s"}, ' "${p%%:*}" "${p%%:*}" "$DOMAIN" "${p#*:}"; done | sed 's/, $//')]
}
J
echo "up: jmap $JMAP_PORT, imap $IMAP_PORT, smtp relay $RELAY_PORT (127.0.0.1); see $WORK/endpoints.json"
