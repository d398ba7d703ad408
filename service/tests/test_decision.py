"""The decision, as a table."""

from __future__ import annotations

import datetime

import pytest
from culvert_proto import Reason
from culvert_service.decision.decision import Asker, Denial, GatewayFact, Permit, Target, decide

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SOON = NOW + datetime.timedelta(hours=1)
ALICE = Asker("laptop", "alice", revoked=False, code_valid_until=SOON)
WIKI = Target("wiki.corp.example", "bob@corp.example", granted=True)
BERLIN, PARIS = GatewayFact("berlin", online=True), GatewayFact("paris", online=True)
DOWN = GatewayFact("berlin", online=False)


def asker(*, revoked: bool = False, until: datetime.datetime | None = SOON) -> Asker:
    return Asker("laptop", "alice", revoked, until)


@pytest.mark.parametrize(
    ("who", "target", "gateways", "pinned", "verdict"),
    [
        (ALICE, WIKI, [BERLIN, PARIS], "", ("berlin", "paris")),
        (ALICE, WIKI, [BERLIN, PARIS], "paris", ("paris",)),
        (ALICE, WIKI, [BERLIN], "rome", ("berlin",)),
        (ALICE, WIKI, [DOWN, PARIS], "", ("paris",)),
        (ALICE, WIKI, [DOWN, PARIS], "berlin", Reason.GATEWAY_DOWN),
        (ALICE, WIKI, [DOWN], "", Reason.GATEWAY_DOWN),
        (ALICE, WIKI, [], "", Reason.GATEWAY_DOWN),
        (ALICE, None, [], "", Reason.NAME_UNKNOWN),
        (ALICE, Target("w", "bob", granted=False), [BERLIN], "", Reason.NO_POLICY),
        (asker(until=None), WIKI, [BERLIN], "", Reason.CODE_NEEDED),
        (asker(until=NOW), WIKI, [BERLIN], "", Reason.CODE_NEEDED),
        (asker(until=None), Target("w", "bob", granted=False), [BERLIN], "", Reason.NO_POLICY),
        (asker(revoked=True), WIKI, [BERLIN], "", Reason.DEVICE_REVOKED),
        (asker(revoked=True), None, [], "", Reason.DEVICE_REVOKED),
    ],
)
def test_decisions(
    who: Asker, target: Target | None, gateways: list[GatewayFact], pinned: str, verdict: object
) -> None:
    found = decide(who, "wiki.corp.example", target, gateways, pinned, NOW)
    match found:
        case Permit(names):
            assert names == verdict
        case Denial():
            error = found.error()
            assert error.reason is verdict
            assert error.remedy
