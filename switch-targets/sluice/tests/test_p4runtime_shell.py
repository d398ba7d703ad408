"""p4runtime-shell as the controller: a person's commands, and the shell's output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from exchange_entries import CPU_PORT, PROGRAMS
from gateway_authority import Authority
from gateway_wires import Wire
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from shell_session import PYTHON, ShellSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="no p4runtime-shell: make build/p4runtime-shell/installed"
    ),
]

Connect = Callable[..., ShellSession]
# For a packet to be counted.
PATIENCE_SECONDS = 10.0
DST, SRC = "00:00:00:00:00:01", "02:00:00:00:00:02"


@pytest.fixture
def arguments(arguments: dict[str, str]) -> dict[str, str]:
    return {**arguments, "--cpu-port": str(CPU_PORT)}


@pytest.fixture
def connect(address: str, infrastructure: Authority, tmp_path: Path) -> Iterator[Connect]:
    """Start a shell. With a program's name, it pushes the program first."""
    shells: list[ShellSession] = []

    def start(election_id: int, program: str | None = None) -> ShellSession:
        config = program and f"{PROGRAMS / program}.p4info.txtpb,{PROGRAMS / program}.json"
        shells.append(ShellSession(tmp_path, address, infrastructure, election_id, config))
        return shells[-1]

    yield start
    for shell in shells:
        shell.close()


@pytest.fixture
def shell(connect: Connect) -> ShellSession:
    return connect(1, "exchange")


@pytest.fixture
def inventory(connect: Connect) -> ShellSession:
    return connect(1, "inventory")


def frame(dst: str = DST) -> Packet:
    return Ether(dst=dst, src=SRC, type=0x88B5) / bytes(50)


def each(shell: ShellSession, *lines: str) -> str:
    """Run lines. Return the output of the last one; the others must not be refused."""
    for line in lines[:-1]:
        shown = shell(line)
        assert "Traceback" not in shown, f"{line}: {shown}"
    return shell(lines[-1])


class TestSetUp:
    def test_a_config_is_pushed_and_its_objects_are_there(self, shell: ShellSession) -> None:
        assert "Welcome to the IPython shell for P4Runtime" in shell.greeting
        assert shell("tables").split() == ["Forward.admission", "Forward.forward"]
        assert shell("print(APIVersion())") == "1.5.0"

    def test_a_second_shell_is_a_backup_until_it_has_the_higher_election_id(
        self, shell: ShellSession, connect: Connect
    ) -> None:
        backup = connect(0)
        assert "You are not the primary client" in backup.greeting
        refusal = each(backup, "m = multicast_group_entry(1).add(1, 1)", "m.insert()")
        assert "only the primary client may change this switch" in refusal
        assert backup("multicast_group_entry().read(print)") == ""
        higher = connect(2)
        assert each(higher, "m = multicast_group_entry(1).add(1, 1)", "m.insert()") == ""
        assert "multicast_group_id: 1" in shell("multicast_group_entry().read(print)")


class TestTables:
    def test_an_entry_is_inserted_read_modified_deleted(
        self, shell: ShellSession, wan: Wire, lan: Wire
    ) -> None:
        read = 'table_entry["forward"].read(lambda it: print(it.action))'
        each(
            shell,
            'e = table_entry["forward"](action="to_port")',
            f'e.match["dst"] = "{DST}"',
            'e.action["port"] = "2"',
            "e.insert()",
        )
        assert r'value: "\002"' in shell(read)
        wan.send(frame())
        assert lan.receive() is not None
        assert "ALREADY_EXISTS, 'table 'Forward.forward': an entry with this key exists'" in shell(
            "e.insert()"
        )
        assert each(shell, 'e.action["port"] = "1"', "e.modify()") == ""
        assert r'value: "\001"' in shell(read)
        wan.send(frame())
        assert wan.receive() is not None
        assert shell("e.delete()") == ""
        assert shell(read) == ""
        assert "NOT_FOUND, 'table 'Forward.forward': no entry has this key'" in shell("e.delete()")

    def test_an_entry_without_its_parameter_is_refused(self, shell: ShellSession) -> None:
        shown = each(
            shell, 'e = table_entry["forward"](action="to_port")', f'e.match["dst"] = "{DST}"', "e.insert()"
        )
        assert "INVALID_ARGUMENT" in shown
        assert "Forward.forward" in shown

    def test_a_default_entry_and_a_direct_counter(self, shell: ShellSession, wan: Wire, lan: Wire) -> None:
        each(
            shell,
            'd = table_entry["forward"](action="to_port", is_default=True)',
            'd.action["port"] = "2"',
            "d.modify()",
        )
        wan.send(frame())
        assert lan.receive() is not None
        each(
            shell,
            'e = table_entry["forward"](action="to_port")',
            f'e.match["dst"] = "{DST}"',
            'e.action["port"] = "2"',
            "e.insert()",
        )
        for _ in range(3):
            wan.send(frame())
            assert lan.receive() is not None
        each(shell, 'c = direct_counter_entry["forwarded"]', f'c.table_entry.match["dst"] = "{DST}"')
        counted = "c.read(lambda it: print(it.packet_count, it.byte_count))"
        assert shell(counted) == f"3 {3 * 64}"
        assert each(shell, "c.packet_count = 10", "c.byte_count = 20", "c.modify()") == ""
        assert shell(counted) == "10 20"

    def test_every_kind_of_match(self, inventory: ShellSession) -> None:
        each(
            inventory,
            'e = table_entry["acl"](action="drop", priority=7)',
            'e.match["src"] = "02:00:00:00:00:00 &&& ff:ff:00:00:00:00"',
            'e.match["type"] = "0x800..0x8ff"',
            'e.match["special"] = "1"',
            "e.insert()",
            'r = table_entry["route"](action="to_port")',
            'r.match["dst"] = "02:00:00:00:00:00/40"',
            'r.action["port"] = "2"',
            "r.insert()",
        )
        acl = inventory('table_entry["acl"].read(print)')
        for kind in ("ternary {", "range {", "optional {", "priority: 7"):
            assert kind in acl
        assert "prefix_len: 40" in inventory('table_entry["route"].read(print)')
        assert each(inventory, "e.delete()", "r.delete()") == ""


class TestProfiles:
    def test_members_groups_and_one_shots(self, inventory: ShellSession, wan: Wire, lan: Wire) -> None:
        each(
            inventory,
            'm = action_profile_member["balancer"](member_id=1, action="to_port")',
            'm.action["port"] = "2"',
            "m.insert()",
            'g = action_profile_group["balancer"](group_id=9)',
            "g.add(1, weight=2)",
            "g.insert()",
            'e = table_entry["spread"](group_id=9)',
            f'e.match["dst"] = "{DST}"',
            "e.insert()",
        )
        assert "action_profile_group_id: 9" in inventory('table_entry["spread"].read(print)')
        assert "weight: 2" in inventory('action_profile_group["balancer"].read(print)')
        wan.send(frame())
        assert lan.receive() is not None
        assert "FAILED_PRECONDITION" in inventory("m.delete()")
        assert each(inventory, 'm.action["port"] = "1"', "m.modify()") == ""
        wan.send(frame())
        assert wan.receive() is not None
        assert each(inventory, "e.delete()", "g.delete()", "m.delete()") == ""
        assert inventory('action_profile_member["balancer"].read(print)') == ""
        each(
            inventory,
            'o = Oneshot("once")',
            'a = Action("to_port")',
            'a["port"] = "2"',
            "o.add(a, weight=3)",
            'e = table_entry["once"](oneshot=o)',
            f'e.match["dst"] = "{DST}"',
            "e.insert()",
        )
        assert "weight: 3" in inventory('table_entry["once"].read(print)')
        wan.send(frame())
        assert lan.receive() is not None


class TestCells:
    def test_counters(self, shell: ShellSession, wan: Wire) -> None:
        each(shell, 'c = counter_entry["received"]', "c.index = 1", "c.packet_count = 7", "c.modify()")
        wan.send(frame())
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (shown := shell("c.read(lambda it: print(it.index, it.packet_count))")) == "1 7":
            assert time.monotonic() < deadline, "the packet is not counted"
        assert shown == "1 8"
        everything = shell('counter_entry["received"].read(lambda it: print(it.packet_count))')
        assert everything.split() == ["0", "8", "0", "0", "0", "0", "0", "0"]
        assert "OUT_OF_RANGE" in each(shell, "c.index = 8", "c.modify()")

    def test_meters(self, inventory: ShellSession) -> None:
        set_rates = ("m.cir = 10", "m.cburst = 20", "m.pir = 30", "m.pburst = 40", "m.modify()")
        assert each(inventory, 'm = meter_entry["rates"]', "m.index = 3", *set_rates) == ""
        shown = "m.read(lambda it: print(it.cir, it.cburst, it.pir, it.pburst))"
        assert inventory(shown) == "10 20 30 40"
        each(
            inventory,
            'e = table_entry["acl"](action="permit", priority=1)',
            'e.match["special"] = "1"',
            "e.insert()",
            'm = direct_meter_entry["acl_meter"]',
            "m.table_entry.priority = 1",
            'm.table_entry.match["special"] = "1"',
        )
        assert each(inventory, *set_rates) == ""
        assert inventory(shown) == "10 20 30 40"


class TestReplication:
    def test_multicast_groups_and_clone_sessions(self, shell: ShellSession, wan: Wire, lan: Wire) -> None:
        each(
            shell,
            "m = multicast_group_entry(1).add(1, 1).add(2, 2)",
            "m.insert()",
            'e = table_entry["forward"](action="to_group")',
            f'e.match["dst"] = "{DST}"',
            'e.action["group"] = "1"',
            "e.insert()",
        )
        assert "instance: 2" in shell("multicast_group_entry().read(print)")
        wan.send(frame())
        assert wan.receive() is not None
        assert lan.receive() is not None
        assert each(shell, "m.delete()", "multicast_group_entry().read(print)") == ""
        each(shell, "s = clone_session_entry(5).add(2, 1)", "s.packet_length_bytes = 20", "s.insert()")
        assert "packet_length_bytes: 20" in shell("clone_session_entry().read(print)")
        assert each(shell, "s.delete()", "clone_session_entry().read(print)") == ""


class TestStreams:
    def test_packets_out_and_in(self, shell: ShellSession, wan: Wire, lan: Wire) -> None:
        sent = bytes(frame())
        each(
            shell,
            'p = packet_out(egress_port="2", submit_to_ingress="0")',
            f'p.payload = bytes.fromhex("{sent.hex()}")',
            "p.send()",
        )
        arrived = lan.receive()
        assert arrived is not None
        assert bytes(arrived) == sent
        each(shell, 'e = table_entry["forward"](action="punt")', f'e.match["dst"] = "{DST}"', "e.insert()")
        wan.send(frame())
        shown = shell(
            "packet_in.sniff(lambda it: print(it.packet.payload.hex(), it.packet.metadata[0].value), timeout=1)"
        )
        assert shown == f"{sent.hex()} b'\\x01'"

    def test_digests(self, shell: ShellSession, wan: Wire, lan: Wire) -> None:
        """The shell acknowledges each list, so the switch sends the next digest of the same source, too."""
        each(
            shell,
            'd = digest_entry["seen_t"]',
            "d.max_list_size = 1",
            "d.ack_timeout_ns = 3600000000000",
            "d.insert()",
            'e = table_entry["forward"](action="learn")',
            f'e.match["dst"] = "{DST}"',
            'e.action["port"] = "2"',
            "e.insert()",
        )
        assert "max_list_size: 1" in shell('digest_entry["seen_t"].read(print)')
        said = "digest_list.sniff(lambda it: print(it.digest.data[0].struct.members[0].bitstring.hex()), timeout=1)"
        for _ in range(2):
            wan.send(frame())
            assert lan.receive() is not None
            assert shell(said) == "020000000002"

    def test_idle_timeouts(self, inventory: ShellSession) -> None:
        each(
            inventory,
            'e = table_entry["flow"](action="learn", idle_timeout_ns=100000000)',
            f'e.match["src"] = "{SRC}"',
            "e.insert()",
        )
        shown = inventory("idle_timeout_notification.sniff(print, timeout=1)")
        assert "idle_timeout_ns: 100000000" in shown
