"""Rust crates that are linked into a crate of ours, by Cargo.lock."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from package import ROOT, Package, read_licence, read_texts

LOCK = ROOT / "Cargo.lock"
# A crate without a licence file, and a crate that its author published with the same licence.
_SAME_AUTHOR = {"byteorder_slice": "pcap-file", "tonic-prost": "tonic"}


def find_packages(crates: Sequence[str]) -> list[Package]:
    """The crates of others, with Rust's standard library. Raises CalledProcessError, LookupError."""
    if not crates:
        return []
    described: dict[str, Any] = json.loads(_cargo("metadata", "--format-version", "1", "--locked"))
    described = {f"{it['name']} v{it['version']}": it for it in described["packages"] if it["source"]}
    by_name = {it["name"]: it for it in described.values()}
    checksums = {
        f"{it['name']} v{it['version']}": it["checksum"]
        for it in tomllib.loads(LOCK.read_text())["package"]
        if "checksum" in it
    }
    found: list[Package] = []
    for name in sorted({line for crate in crates for line in _list_linked(crate)} & described.keys()):
        about = described[name]
        licence = read_licence(name, [about["license"] or ""])
        texts = _read_crate_texts(about, licence) or _read_crate_texts(
            by_name[_SAME_AUTHOR[about["name"]]], licence
        )
        digest = ("SHA-256", checksums[name])
        found.append(Package("cargo", about["name"], about["version"], licence, texts, digest))
    return found


def _list_linked(crate: str) -> list[str]:
    """Name and version of each. Left out are macros and build scripts, which run while the crate is built."""
    command = ["tree", "--locked", "-p", crate, "-e", "normal,no-proc-macro"]
    command += ["--prefix", "none", "--format", "{p}", "--no-dedupe"]
    # maturin turns the feature on.
    if crate == "culvert_ipsec":
        command += ["--features", "python"]
    return _cargo(*command).splitlines()


def _read_crate_texts(about: dict[str, Any], licence: str) -> tuple[str, ...]:
    return read_texts([it for it in Path(about["manifest_path"]).parent.rglob("*") if it.is_file()], licence)


def _cargo(*arguments: str) -> str:
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
