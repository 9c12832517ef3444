#!/bin/sh
# Installs what the tests of helve-postgres start: PostgreSQL and pgbouncer from Debian's packages. Does nothing where
# they are.
# Usage: scripts/setup-postgres.sh
set -eu

missing=
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v psql >/dev/null || missing="$missing postgresql-client"
[ -x /usr/sbin/pgbouncer ] || missing="$missing pgbouncer"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "servers are missing, and only root can install them: apt-get install$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet --quiet
# The packages would make a cluster and start servers, which no test uses.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] ||
    echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
# shellcheck disable=SC2086 # each is a word
apt-get install --yes --quiet --no-install-recommends $missing >/dev/null
service pgbouncer stop >/dev/null 2>&1 || true
