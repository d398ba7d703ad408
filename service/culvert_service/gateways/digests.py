"""What a gateway tells by itself: soft limits and moved peers are handed on, what strangers can provoke is counted."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import finsy

from culvert_service.gateways import mapped, p4runtime

_log = logging.getLogger(__name__)

NAMES = ("soft_limit_t", "moved_t", "bad_spi_t", "acquire_t")
# Their fields that are addresses.
_ADDRESSES = ("src", "dst")
_TELL_EVERY_SECONDS = 5.0


async def subscribe(switch: finsy.Switch) -> None:
    """Raises P4ClientError."""
    try:
        await switch.write([+finsy.P4DigestEntry(name, max_list_size=1) for name in NAMES])
    except finsy.P4ClientError as error:
        # They are still there when only the connection was lost.
        if not p4runtime.already_exists_only(error):
            raise


async def hand_on(
    switch: finsy.Switch,
    name: str,
    soft_limit: Callable[[int], Awaitable[None]],
    moved: Callable[[int, str, int], None],
) -> None:
    """`soft_limit` takes an SA, `moved` an SA with its peer's address and port. Until cancelled."""
    seen, told = 0, -_TELL_EVERY_SECONDS
    async for message in switch.read_digests(name):
        with suppress(finsy.P4ClientError):
            await switch.write([message.ack()])
        seen += len(message)
        for values in p4runtime.digest_values(message):
            if name == "soft_limit_t":
                await soft_limit(values["sa_id"])
            elif name == "moved_t":
                moved(values["sa_id"], mapped.text(values["peer"]), values["port"])
            elif time.monotonic() - told >= _TELL_EVERY_SECONDS:
                # Anyone on the internet can provoke these: they are counted, and the newest is shown.
                told = time.monotonic()
                shown = {key: mapped.text(it) if key in _ADDRESSES else it for key, it in values.items()}
                _log.info("digest", extra={"gateway": switch.name, "digest": name, "count": seen, **shown})
