"""The demo's verdict: the figures of build/demo.json, and what each must be."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

LONGEST_HOLD_MS = 2000.0  # docs/architecture.md, "One click"


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one run. Times in milliseconds; packets as counted on the gateway's wire."""

    first_page_ms: float
    dns_held_ms: float
    tunnel_setup_ms: float
    esp_packets: int
    cleartext_packets: int
    bytes_lost_at_rekey: int
    bytes_repeated: int
    packets_dropped: int
    entries_left: int
    rekeys: int
    frames_captured: int
    frames_lost_by_capture: int
    control_cleartext_packets: int

    def failures(self) -> list[str]:
        """Everything that does not hold, in words; empty when all is well."""
        rules = (
            (self.first_page_ms > 0, "the page did not open"),
            (
                0 < self.dns_held_ms <= LONGEST_HOLD_MS,
                f"the DNS answer was held {self.dns_held_ms:.0f} ms, of at most {LONGEST_HOLD_MS:.0f}",
            ),
            (
                0 < self.tunnel_setup_ms <= self.dns_held_ms,
                "the tunnel was not set up while the answer was held",
            ),
            (self.esp_packets > 0, "no ESP packet was seen"),
            (
                self.cleartext_packets == 0,
                f"{self.cleartext_packets} cleartext packets were seen on the internet",
            ),
            (self.control_cleartext_packets > 0, "the control packet, sent in clear, was not caught"),
            (
                self.frames_lost_by_capture == 0,
                f"the capture missed {self.frames_lost_by_capture} frames: it proves nothing",
            ),
            (self.rekeys > 0, "the tunnel was not rekeyed during the download"),
            (self.bytes_lost_at_rekey == 0, f"{self.bytes_lost_at_rekey} bytes were lost at the rekey"),
            (
                self.packets_dropped == 0,
                f"the tunnel's ends dropped {self.packets_dropped} packets while the keys changed",
            ),
            (self.entries_left == 0, f"{self.entries_left} entries were left on the gateway"),
        )
        return [words for holds, words in rules if not holds]

    def write(self, path: Path) -> None:
        """As one JSON object."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")
