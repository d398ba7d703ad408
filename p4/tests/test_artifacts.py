"""The committed pipeline is what the sources say, and carries no trace of the machine that compiled it."""

import hashlib
import json
from pathlib import Path

import pytest

PROGRAMS = ("gateway", "crypto_host")
P4 = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_artifacts_are_compiled_from_these_sources(program: str) -> None:
    sources = [P4 / f"{program}.p4", *sorted((P4 / "gateway").glob("*.p4"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    assert (P4 / "build" / f"{program}.sha256").read_text().strip() == digest, "run p4/compile"


@pytest.mark.parametrize(
    ("program", "source"), [("gateway", "gateway/metadata.p4"), ("crypto_host", "crypto_host.p4")]
)
def test_every_drop_cause_of_the_sources_has_a_place_in_the_counter(program: str, source: str) -> None:
    compiled = json.loads((P4 / "build" / f"{program}.json").read_text())
    [drops] = [array for array in compiled["counter_arrays"] if array["name"].endswith("Ingress.drops")]
    [causes] = [it for name, it in _enums((P4 / source).read_text()) if name.endswith("Drop")]
    assert max(causes.values()) < drops["size"]
    assert len(set(causes.values())) == len(causes)


@pytest.mark.parametrize("program", PROGRAMS)
def test_file_names_in_the_artifacts_are_relative(program: str) -> None:
    assert '"/' not in (P4 / "build" / f"{program}.json").read_text()


def _enums(source: str) -> list[tuple[str, dict[str, int]]]:
    found: list[tuple[str, dict[str, int]]] = []
    for block in source.split("enum bit<8> ")[1:]:
        name, rest = block.split("{", 1)
        members: dict[str, int] = {}
        for line in rest.split("}", 1)[0].splitlines():
            member, equals, value = line.split("//")[0].strip().rstrip(",").partition("=")
            if equals:
                members[member.strip()] = int(value)
        found.append((name.strip(), members))
    return found
