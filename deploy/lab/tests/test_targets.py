"""The start of the gateway's switch."""

from __future__ import annotations

from pathlib import Path

import pytest
from culvert_lab import targets


@pytest.mark.parametrize("options", ["--thrift-port arg", ""], ids=["with Thrift", "without"])
def test_bmv2_gets_no_option_that_its_build_refuses(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = tmp_path / "simple_switch_grpc"
    switch.write_text(f"#!/bin/sh\necho '  --no-p4 {options}'\n")
    switch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CULVERT_TARGET", "bmv2")
    monkeypatch.setattr(targets, "BMV2_MODULE", switch)
    argv = targets.choose().argv
    assert ("--thrift-port" in argv[: argv.index("--")]) == bool(options)
