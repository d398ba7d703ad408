"""What a computer says of itself is what the controller takes."""

from culvert_client.controller.posture import posture


def test_posture_is_short_text() -> None:
    found = posture()
    assert {"kernel", "architecture"} <= set(found)
    assert all(name and 0 < len(value) <= 256 and value.isprintable() for name, value in found.items())
