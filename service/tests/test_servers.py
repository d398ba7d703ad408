from __future__ import annotations

import socket

import pytest
from culvert_service.servers import listening


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_head(host: str) -> None:
    with listening(f"{host}:0") as listener, socket.create_connection(listener.getsockname()[:2]):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
