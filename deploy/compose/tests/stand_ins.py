"""An image with Postgres, BIND and nginx of Debian, in the places of the images that compose.yaml names."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from releases import DEBIAN_12, make_root

_IMAGE = "localhost/culvert-test-services"
_PACKAGES = ("postgresql-15", "bind9", "nginx-light")
# As the official image's start, with the variables that compose.yaml sets.
_POSTGRES = """#!/bin/sh
set -eu
data=/var/lib/postgresql/data
bin=/usr/lib/postgresql/15/bin
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
mkdir -p /var/run/postgresql
chown postgres:postgres "$data" /var/run/postgresql
if [ ! -e "$data/PG_VERSION" ]; then
    as_postgres "$bin/initdb" -D "$data" -U "$POSTGRES_USER" -A scram-sha-256 \\
        --pwfile="$POSTGRES_PASSWORD_FILE" --encoding=UTF8 --no-sync
    echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_DB" | as_postgres "$bin/postgres" --single -D "$data" postgres
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/postgres" -D "$data" -c listen_addresses='*'
"""
_NGINX = """daemon off;
error_log stderr;
pid /run/nginx.pid;
events {}
http { access_log off; include /etc/nginx/mime.types; server { listen 80; root /usr/share/nginx/html; } }
"""


def build() -> None:
    """Raises CalledProcessError. Needs root, network and buildah."""
    root = make_root(DEBIAN_12, "compose", _PACKAGES)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "postgres-stand-in").write_text(_POSTGRES)
        (folder / "postgres-stand-in").chmod(0o755)
        (folder / "stand-in.conf").write_text(_NGINX)
        subprocess.run(
            ["tar", "-C", str(root), "--create", "--file", str(folder / "root.tar"), "."], check=True
        )
        (folder / "Containerfile").write_text(
            "FROM scratch\nADD root.tar /\nCOPY postgres-stand-in /usr/local/bin/\nCOPY stand-in.conf /etc/nginx/\n"
            "ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
        )
        command = ["buildah", "build", "--quiet", "--layers=false", "--timestamp=0", f"--tag={_IMAGE}"]
        subprocess.run([*command, str(folder)], check=True, stdout=subprocess.DEVNULL)
