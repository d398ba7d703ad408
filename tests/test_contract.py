"""The P4 program, the C header, agent.proto and the database say the same as proto/contract.toml."""

import json
import re
import tomllib
from pathlib import Path

from culvert_ipsec import xfrm_statistics
from culvert_proto import agent_pb2
from culvert_proto.contract import (
    DATAPATH_DROPS,
    ENDPOINTS,
    FIRST_SPI,
    GATEWAY_DROPS,
    MTU_MIN,
    NAT_T_PORT,
    PORT_MAX,
    SAS,
    WRAPPED_KEY_LEN,
    Protocol,
    Suite,
)

ROOT = Path(__file__).parents[1]
CONTRACT = tomllib.loads((ROOT / "proto/contract.toml").read_text())
P4 = "\n".join(path.read_text() for path in sorted((ROOT / "p4/gateway").glob("*.p4")))
HEADER = (ROOT / "ipsec/esp_c/include/culvert_esp.h").read_text()


def members(enum: str) -> dict[str, int]:
    """The members of an enum of the P4 program."""
    [body] = re.findall(rf"enum bit<8> {enum} {{(.*?)}}", P4, re.DOTALL)
    return {name: int(number) for name, number in re.findall(r"(\w+)\s*=\s*(\d+)", body)}


def constant(name: str) -> int:
    [value] = re.findall(rf"const bit<\d+> {name}\s*= (\d+);", P4)
    return int(value)


def test_the_p4_program_has_the_suites_verdicts_and_causes() -> None:
    assert members("Suite") == {suite.name: suite.number for suite in Suite}
    assert members("Verdict") == {name: it["number"] for name, it in CONTRACT["verdicts"].items()}
    causes = {number: name.lower() for name, number in members("Drop").items() if name != "NONE"}
    assert causes == GATEWAY_DROPS


def test_the_p4_program_has_the_limits() -> None:
    assert (constant("SAS"), constant("PORT_ESP_IN_UDP")) == (SAS, NAT_T_PORT)
    for protocol in Protocol:
        assert constant(f"PROTO_{protocol.name}") == protocol
    [bits] = re.findall(r"typedef bit<(\d+)> wrapped_key_t;", P4)
    assert int(bits) == 8 * WRAPPED_KEY_LEN
    program = json.loads((ROOT / "p4/build/gateway.json").read_text())
    assert {it["size"] for it in program["register_arrays"] if "peer_address" in it["name"]} == {ENDPOINTS}
    [metadata] = [it for it in program["header_types"] if it["name"] == "standard_metadata"]
    [bits] = [it[1] for it in metadata["fields"] if it[0] == "ingress_port"]
    assert 2**bits - 1 == PORT_MAX


def test_the_c_header_has_the_verdicts_and_lengths() -> None:
    verdicts = re.findall(r"CULVERT_ESP_VERDICT_(\w+) = (\d+)", HEADER)
    assert {name: int(number) for name, number in verdicts} == members("Verdict")
    defines = dict(re.findall(r"#define CULVERT_ESP_(\w+) (\d+)", HEADER))
    assert int(defines["WRAPPED_KEY_LEN"]) == WRAPPED_KEY_LEN
    # SPI, sequence number, IV, padding to a whole block, pad length, next header, ICV.
    assert int(defines["OVERHEAD"]) >= max(8 + it.iv + it.block - 1 + 2 + it.icv for it in Suite)


def test_the_agent_api_has_the_suites() -> None:
    numbers = {name.removeprefix("SUITE_"): number for name, number in agent_pb2.Suite.items() if number}
    assert numbers == {suite.name: suite.number for suite in Suite}


def test_the_database_has_the_limits() -> None:
    migrations = "\n".join(
        path.read_text() for path in (ROOT / "db/culvert_db/migrations/versions").glob("*.py")
    )
    for limit in (
        f"spi BETWEEN {FIRST_SPI} AND",
        f"slot BETWEEN 0 AND {SAS - 1}",
        f"endpoint BETWEEN 0 AND {ENDPOINTS - 1}",
        f"path_mtu BETWEEN {MTU_MIN} AND",
    ):
        assert limit in migrations


def test_the_kernels_statistics_have_every_cause_of_the_datapath() -> None:
    assert tuple(xfrm_statistics.CAUSES) == DATAPATH_DROPS


def test_the_screens_name_every_cause_of_the_datapath() -> None:
    words = (ROOT / "proto/culvert_proto/screens/units.py").read_text()
    assert [cause for cause in DATAPATH_DROPS if f'"{cause}": _(' not in words] == []
