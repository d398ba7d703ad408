"""The committed pipeline is what the sources say, and carries no trace of the machine that compiled it."""

import hashlib
import json
from pathlib import Path

P4 = Path(__file__).resolve().parents[1]


def test_artifacts_are_compiled_from_these_sources() -> None:
    sources = [P4 / "gateway.p4", *sorted((P4 / "gateway").glob("*.p4"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    assert (P4 / "build" / "gateway.sha256").read_text().strip() == digest, "run p4/compile"


def test_every_drop_cause_of_the_sources_has_a_place_in_the_counter() -> None:
    program = json.loads((P4 / "build" / "gateway.json").read_text())
    [drops] = [array for array in program["counter_arrays"] if array["name"] == "GatewayIngress.drops"]
    causes = next(enum for enum in _enums((P4 / "gateway" / "metadata.p4").read_text()) if enum[0] == "Drop")[
        1
    ]
    assert max(causes.values()) < drops["size"]
    assert len(set(causes.values())) == len(causes)


def test_file_names_in_the_artifacts_are_relative() -> None:
    assert '"/' not in (P4 / "build" / "gateway.json").read_text()


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
