"""The package culvert-archive: it makes a controller's repository known to the apt of a laptop or a gateway.

/etc/apt/sources.list.d/culvert.sources         the repository, with the suite of the computer's own release
/etc/apt/preferences.d/culvert-archive.pref     nothing but Culvert's packages comes from this host
/etc/apt/apt.conf.d/50culvert-archive           the CA of the controller's certificate, unless that is a public one
/usr/share/keyrings/culvert-archive-keyring.pgp the keys that may sign; later the package of that name has them
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from culvert_service.apt.deb import write_package

_KEYRING = "usr/share/keyrings/culvert-archive-keyring.pgp"
_CA = "usr/share/culvert-archive/ca.pem"
_SOURCE = "usr/share/culvert-archive/culvert.sources"
_PACKAGES = "culvert-client culvert-tray culvert-gateway culvert-archive-keyring"


@dataclass(frozen=True, slots=True)
class Source:
    """`systems`: titles by codename. `ca_pem`: None for a certificate that the laptop trusts already.

    `keyring`: OpenPGP keys, binary. `published_at`: in seconds since 1970.
    """

    url: str
    host: str
    version: str
    architecture: str
    systems: Mapping[str, str]
    keyring: bytes
    ca_pem: bytes | None
    published_at: int


def write_archive_package(source: Source) -> bytes:
    files = {
        _KEYRING: source.keyring,
        _SOURCE: _SOURCES.format(url=source.url, architecture=source.architecture, keyring=_KEYRING).encode(),
        "etc/apt/preferences.d/culvert-archive.pref": _PREFERENCES.format(
            host=source.host, packages=_PACKAGES
        ).encode(),
    }
    if source.ca_pem is not None:
        files[_CA] = source.ca_pem
        setting = f'Acquire::https::{source.host}::CAInfo "/{_CA}";\n'
        files["etc/apt/apt.conf.d/50culvert-archive"] = setting.encode()
    control = _CONTROL.format(version=source.version, architecture=source.architecture, host=source.host)
    titles = ", ".join(source.systems.values())
    preinst = _PREINST.format(
        find_suite=_FIND_SUITE,
        codenames=" | ".join(source.systems),
        titles=titles,
        find_other=_FIND_OTHER.format(url=shlex.quote(source.url)),
    )
    postinst = _POSTINST.format(find_suite=_FIND_SUITE, source=_SOURCE)
    scripts = {"preinst": preinst, "postinst": postinst, "postrm": _POSTRM}
    return write_package(control, scripts, files, source.published_at)


_CONTROL = """\
Package: culvert-archive
Version: {version}
Architecture: {architecture}
Maintainer: The Culvert authors <maintainers@culvert.invalid>
Section: misc
Priority: optional
Description: apt repository of Culvert at {host}
 This package makes known to apt the packages of Culvert's client and gateway
 that a controller serves, and the keys of Culvert's releases, which sign them.
"""
_SOURCES = """\
Types: deb
URIs: {url}
Suites: @SUITE@
Components: main
Architectures: {architecture}
Signed-By: /{keyring}
"""
_PREFERENCES = """\
Package: *
Pin: origin "{host}"
Pin-Priority: -1

Package: {packages}
Pin: origin "{host}"
Pin-Priority: 500
"""
# A derivative, as Linux Mint, names the release that it is built on.
_FIND_SUITE = """\
. /etc/os-release
suite=${DEBIAN_CODENAME:-${UBUNTU_CODENAME:-$VERSION_CODENAME}}"""
_PREINST = """\
#!/bin/sh
set -e
{find_suite}
case "$suite" in
{codenames}) ;;
*)
    echo "Culvert has packages for {titles}, and none for $PRETTY_NAME. Nothing was changed." >&2
    exit 1
    ;;
esac
{find_other}
"""
# apt reads no source at all where two name one repository with different keyrings.
_FIND_OTHER = """\
other=$(grep -rlF {url} /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | grep -v '/culvert.sources$' | head -n 1)
if [ -n "$other" ]; then
    echo "$other names this repository, too: remove it first. Nothing was changed." >&2
    exit 1
fi"""
_POSTINST = """\
#!/bin/sh
set -e
{find_suite}
if [ "$1" = configure ]; then
    umask 022
    sed "s/@SUITE@/$suite/" /{source} >/etc/apt/sources.list.d/culvert.sources
fi
"""
_POSTRM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] || [ "$1" = purge ]; then
    rm -f /etc/apt/sources.list.d/culvert.sources
fi
"""
