"""An administrator's calls of the controller's REST API, from a thread inside the controller's namespace."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from culvert_lab.errors import StepError
from culvert_lab.netns import Inside
from culvert_lab.topology import CONTROLLER_ADDRESS, REST_PORT

POLL_SECONDS = 0.05
# The drop causes that concern keys and policy.
TUNNEL_CAUSES = {"bad_spi", "replay", "icv", "hard_limit", "key", "selector", "policy", "no_sa"}


class Admin:
    """REST with the admin token, trusting the controller's own CA and no other."""

    def __init__(self, inside: Inside, token: str, ca: Path) -> None:
        self._inside = inside
        self._client = httpx.Client(
            base_url=f"https://{CONTROLLER_ADDRESS}:{REST_PORT}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(ca)),
            timeout=20.0,
            trust_env=False,
            # A controller that stops must not wait for an idle connection of ours.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def get(self, path: str) -> Any:
        """The answer's JSON. Raises StepError with the controller's own words when it refuses."""
        return await self._inside.run(self._call, "GET", path, None)

    async def post(self, path: str, body: dict[str, object] | None = None) -> Any:
        """The answer's JSON. Raises StepError."""
        return await self._inside.run(self._call, "POST", path, body)

    async def delete(self, path: str) -> Any:
        """The answer's JSON. Raises StepError."""
        return await self._inside.run(self._call, "DELETE", path, None)

    async def until(self, path: str, holds: Callable[[Any], bool], what: str, seconds: float = 40.0) -> Any:
        """Ask until the answer is as wanted. Raises StepError with the last answer after `seconds`."""
        deadline = time.monotonic() + seconds
        while not holds(answer := await self.get(path)):
            if time.monotonic() > deadline:
                raise StepError(f"{what} within {seconds:g} s did not come true. GET {path} says: {answer}")
            await asyncio.sleep(POLL_SECONDS)
        return answer

    async def tunnel_entries(self, gateway: str) -> int:
        """Entries that tunnels have put into the gateway's tables, as read back from it."""
        return int((await self.get(f"/gateways/{gateway}/entries"))["tunnel_entries"])

    async def tunnel_drops(self, gateway: str) -> int:
        """Packets that the gateway dropped for their keys or their policy, as its next sample says. Raises StepError."""
        path, now = f"/gateways/{gateway}/samples", datetime.now(UTC)

        def later(samples: list[dict[str, Any]]) -> bool:
            return bool(samples) and datetime.fromisoformat(samples[-1]["at"]) > now

        samples = await self.until(path, later, "A sample of the gateway's counters")
        return sum(count for cause, count in samples[-1]["drops"].items() if cause in TUNNEL_CAUSES)

    def close(self) -> None:
        self._client.close()

    def _call(self, method: str, path: str, body: dict[str, object] | None) -> Any:
        answer = self._client.request(method, path, json=body)
        if answer.is_error:
            raise StepError(f"{method} {path}: {answer.status_code} {_words(answer)}")
        return answer.json() if answer.content else None


def _words(answer: httpx.Response) -> str:
    try:
        problem = answer.json()
        return f"{problem.get('title', '')} {problem.get('detail', '')}".strip() or answer.text
    except (ValueError, AttributeError):
        return answer.text[:500]
