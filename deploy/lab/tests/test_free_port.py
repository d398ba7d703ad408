"""Programs of tests that run at once never get each other's ports."""

import subprocess
import sys

from culvert_lab.free_port import free_port

MANY = 400
_PRINT = f"from culvert_lab.free_port import free_port; print(*(free_port() for _ in range({MANY}))); input()"


def test_no_port_is_given_twice() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PRINT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        theirs = {int(port) for port in other.stdout.readline().split()}
        ours = {free_port() for _ in range(MANY)}
        other.communicate(b"\n")
    assert len(theirs | ours) == 2 * MANY


def test_the_ports_of_a_process_do_not_end() -> None:
    assert len([free_port() for _ in range(3000)]) == 3000
