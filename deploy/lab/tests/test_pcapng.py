"""Captures are written, and read back by the lab and by scapy."""

from __future__ import annotations

import io

from culvert_lab.pcapng import Packet, Writer, read
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import PcapNgReader

names = st.sampled_from(["laptop", "gateway", "dns"])
packets = st.lists(st.builds(Packet, names, st.integers(0, 2**63), st.binary(max_size=99)))


def written(packets: list[Packet]) -> io.BytesIO:
    out = io.BytesIO()
    writer = Writer(out)
    for packet in packets:
        writer.write(packet)
    out.seek(0)
    return out


@given(packets)
def test_frames_come_back(packets: list[Packet]) -> None:
    assert list(read(written(packets))) == packets


@given(packets, st.integers(1, 40))
def test_a_file_that_was_cut_off_gives_what_is_whole(packets: list[Packet], cut: int) -> None:
    found = list(read(io.BytesIO(written(packets).getvalue()[:-cut])))
    assert found == packets[: len(found)]


def test_scapy_reads_the_capture() -> None:
    file = written([Packet("laptop", 1_500_000_000, bytes(60)), Packet("gateway", 2_000_000_000, bytes(61))])
    with PcapNgReader(file) as reader:
        found = [(len(packet), float(packet.time), packet.sniffed_on) for packet in reader]
    assert found == [(60, 1.5, "laptop"), (61, 2.0, "gateway")]
