"""The decision: as a table, against a naive model of it, and the steps that it keeps."""

from __future__ import annotations

import datetime
import ipaddress

import pytest
from culvert_proto import Reason
from culvert_service.decision.conditions import Asker, Check, Conditions, Denial
from culvert_service.decision.decision import AskedResource, Decision, GatewayFact, Permit, Policy, decide
from culvert_service.decision.facts import parse
from culvert_service.decision.hours import Hours
from hypothesis import given
from hypothesis import strategies as st

# A Thursday.
NOW = datetime.datetime(2026, 1, 1, 12, 0, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
SOON = NOW + HOUR
WIKI = "wiki.corp.example"
BERLIN, PARIS = GatewayFact("berlin", online=True), GatewayFact("paris", online=True)
DOWN, DOWN_PARIS = GatewayFact("berlin", online=False), GatewayFact("paris", online=False)
DRAINING = GatewayFact("berlin", online=True, draining=True)

OFFICE = Conditions(sources=(ipaddress.ip_network("203.0.113.0/24"),))
NIGHT = Conditions.model_validate(
    {"hours": {"zone": "UTC", "windows": [{"days": ["thu"], "opens": "22:00", "closes": "06:00"}]}}
)
DAY = Conditions.model_validate(
    {"hours": {"zone": "UTC", "windows": [{"days": ["thu"], "opens": "09:00", "closes": "12:30"}]}}
)
FRESH = Conditions(code_max_age_seconds=600)
APPROVED = Conditions(device_approved=True)


def asker(
    *, revoked: bool = False, approved: bool = False, age: float | None = 0, source: str = "198.51.100.7"
) -> Asker:
    """`age` of the code in minutes; None: there is none."""
    proven = None if age is None else NOW - datetime.timedelta(minutes=age)
    until = proven + 8 * HOUR if proven else None
    return Asker("laptop", "alice", revoked, approved, proven, until, source)


def wiki(*conditions: Conditions, enabled: bool = True) -> AskedResource:
    policies = tuple(Policy(f"p{n}", enabled, one) for n, one in enumerate(conditions))
    return AskedResource(WIKI, "bob@corp.example", policies)


def decided(
    who: Asker, target: AskedResource | None, gateways: tuple[GatewayFact, ...] = (BERLIN,), pinned: str = ""
) -> Decision:
    return decide(who, WIKI, target, gateways, pinned, NOW)


ANYONE = wiki(Conditions())


@pytest.mark.parametrize(
    ("who", "target", "gateways", "pinned", "verdict"),
    [
        (asker(), ANYONE, (BERLIN, PARIS), "", ("berlin", "paris")),
        (asker(), ANYONE, (BERLIN, PARIS), "paris", ("paris",)),
        (asker(), ANYONE, (BERLIN,), "rome", ("berlin",)),
        (asker(), ANYONE, (DOWN, PARIS), "", ("paris",)),
        # A wish, where the gateway that is wished for cannot be used.
        (asker(), ANYONE, (DOWN, PARIS), "berlin", ("paris",)),
        (asker(), ANYONE, (DRAINING, PARIS), "berlin", ("paris",)),
        (asker(), ANYONE, (DOWN, DOWN_PARIS), "paris", Reason.GATEWAY_DOWN),
        (asker(), ANYONE, (DRAINING, PARIS), "", ("paris",)),
        (asker(), ANYONE, (DRAINING,), "", Reason.GATEWAY_DRAINING),
        (asker(), ANYONE, (DOWN,), "", Reason.GATEWAY_DOWN),
        (asker(), ANYONE, (), "", Reason.GATEWAY_DOWN),
        (asker(), None, (), "", Reason.NAME_UNKNOWN),
        (asker(revoked=True), ANYONE, (BERLIN,), "", Reason.DEVICE_REVOKED),
        (asker(revoked=True), None, (), "", Reason.DEVICE_REVOKED),
        (asker(), wiki(), (BERLIN,), "", Reason.NO_POLICY),
        (asker(age=None), wiki(), (BERLIN,), "", Reason.NO_POLICY),
        (asker(), wiki(Conditions(), enabled=False), (BERLIN,), "", Reason.NO_POLICY),
        (asker(age=None), ANYONE, (BERLIN,), "", Reason.CODE_NEEDED),
        (asker(age=8 * 60), ANYONE, (BERLIN,), "", Reason.CODE_EXPIRED),
        (asker(age=9), wiki(FRESH), (BERLIN,), "", ("berlin",)),
        (asker(age=10), wiki(FRESH), (BERLIN,), "", Reason.CODE_TOO_OLD),
        (asker(age=None), wiki(FRESH), (BERLIN,), "", Reason.CODE_NEEDED),
        (asker(), wiki(APPROVED), (BERLIN,), "", Reason.DEVICE_NOT_APPROVED),
        (asker(approved=True), wiki(APPROVED), (BERLIN,), "", ("berlin",)),
        (asker(), wiki(OFFICE), (BERLIN,), "", Reason.SOURCE_NOT_ALLOWED),
        (asker(source="203.0.113.9"), wiki(OFFICE), (BERLIN,), "", ("berlin",)),
        (asker(source="2001:db8::9"), wiki(OFFICE), (BERLIN,), "", Reason.SOURCE_NOT_ALLOWED),
        (asker(), wiki(NIGHT), (BERLIN,), "", Reason.OUTSIDE_HOURS),
        (asker(), wiki(DAY), (BERLIN,), "", ("berlin",)),
        # Any that permits is enough.
        (asker(), wiki(NIGHT, OFFICE, Conditions()), (BERLIN,), "", ("berlin",)),
        # Several policies deny: the reason that the person can do most about is given.
        (asker(age=20), wiki(APPROVED, NIGHT, OFFICE, FRESH), (BERLIN,), "", Reason.CODE_TOO_OLD),
        (asker(), wiki(APPROVED, NIGHT, OFFICE), (BERLIN,), "", Reason.SOURCE_NOT_ALLOWED),
        (asker(), wiki(APPROVED, NIGHT), (BERLIN,), "", Reason.OUTSIDE_HOURS),
        # One policy denies for two reasons: the one that a code would not remove is given.
        (asker(age=None), wiki(NIGHT), (BERLIN,), "", Reason.OUTSIDE_HOURS),
        (asker(age=None), wiki(APPROVED, NIGHT), (BERLIN,), "", Reason.OUTSIDE_HOURS),
        (
            asker(age=None),
            wiki(Conditions(device_approved=True, hours=NIGHT.hours)),
            (BERLIN,),
            "",
            Reason.DEVICE_NOT_APPROVED,
        ),
    ],
)
def test_decisions(
    who: Asker, target: AskedResource | None, gateways: tuple[GatewayFact, ...], pinned: str, verdict: object
) -> None:
    match decided(who, target, gateways, pinned).verdict:
        case Permit(names):
            assert names == verdict
        case Denial() as denial:
            error = denial.error()
            assert error.reason is verdict
            assert error.remedy


@pytest.mark.parametrize(
    ("target", "age", "until", "code_seconds"),
    [
        (ANYONE, 60, NOW + 7 * HOUR, 0),
        (wiki(FRESH), 4, NOW + datetime.timedelta(minutes=6), 600),
        (wiki(DAY), 0, NOW + HOUR / 2, 0),
        (
            wiki(Conditions(hours=DAY.hours, code_max_age_seconds=600)),
            4,
            NOW + datetime.timedelta(minutes=6),
            600,
        ),
        (wiki(FRESH, DAY), 4, NOW + HOUR / 2, 0),
        (wiki(FRESH, Conditions()), 4, NOW + 8 * HOUR - datetime.timedelta(minutes=4), 0),
    ],
)
def test_a_permit_lasts_as_long_as_the_best_policy(
    target: AskedResource, age: float, until: datetime.datetime, code_seconds: int
) -> None:
    found = decided(asker(age=age), target).verdict
    assert isinstance(found, Permit)
    assert (found.until, found.code_seconds) == (until, code_seconds)


def test_a_denial_says_when_it_opens_by_the_clock_there() -> None:
    hours = Hours.model_validate(
        {"zone": "Asia/Tokyo", "windows": [{"days": ["fri"], "opens": "08:00", "closes": "18:00"}]}
    )
    found = decided(asker(), wiki(NIGHT, Conditions(hours=hours))).verdict
    assert isinstance(found, Denial)
    assert "Thursday, 01 January, 22:00 (UTC)" in found.error().message
    found = decided(asker(), wiki(Conditions(hours=hours))).verdict
    assert isinstance(found, Denial)
    assert "Friday, 02 January, 08:00 (Asia/Tokyo)" in found.error().message


def test_a_newer_controllers_condition_permits_nothing_and_stops_nothing() -> None:
    stored = '[{"name": "p", "enabled": true, "conditions": {"moon": "full"}}]'
    assert decided(asker(), AskedResource(WIKI, "bob", parse(stored, approval=False))).verdict == Denial(
        Reason.NO_POLICY, {"user": "alice", "name": WIKI, "owner": "bob"}
    )


_CONDITIONS = st.builds(
    Conditions,
    code_max_age_seconds=st.none() | st.integers(60, 8 * 3600),
    hours=st.sampled_from([None, NIGHT.hours, DAY.hours]),
    device_approved=st.booleans(),
    sources=st.sampled_from([(), OFFICE.sources]),
)
_POLICIES = st.lists(st.tuples(st.booleans(), _CONDITIONS), max_size=4).map(
    lambda found: tuple(Policy(f"p{n}", enabled, one) for n, (enabled, one) in enumerate(found))
)
_ASKERS = st.builds(
    asker,
    approved=st.booleans(),
    age=st.none() | st.integers(0, 600),
    source=st.sampled_from(["198.51.100.7", "203.0.113.9"]),
)


def _lets_in(policy: Policy, who: Asker, at: datetime.datetime) -> bool:
    """Each condition in its own words, for a NOW that is Thursday noon."""
    asked = policy.conditions
    proven, until = who.code_proven_at, who.code_valid_until
    return (
        policy.enabled
        and proven is not None
        and until is not None
        and at < until
        and (asked.code_max_age_seconds is None or (at - proven).total_seconds() < asked.code_max_age_seconds)
        and (not asked.device_approved or who.approved)
        and (not asked.sources or who.source == "203.0.113.9")
        and (asked.hours is None or (asked.hours == DAY.hours and at < NOW + HOUR / 2))
    )


@given(policies=_POLICIES, who=_ASKERS)
def test_any_policy_that_permits_is_enough_and_for_that_long(
    policies: tuple[Policy, ...], who: Asker
) -> None:
    found = decided(who, AskedResource(WIKI, "bob", policies)).verdict
    permits = [policy for policy in policies if _lets_in(policy, who, NOW)]
    assert isinstance(found, Permit) == bool(permits)
    if isinstance(found, Permit):
        moment = datetime.timedelta(microseconds=1)
        assert found.until > NOW
        assert any(_lets_in(policy, who, found.until - moment) for policy in permits)
        assert not any(_lets_in(policy, who, found.until) for policy in permits)


@given(policies=_POLICIES, who=_ASKERS, online=st.booleans())
def test_the_steps_tell_the_verdict(policies: tuple[Policy, ...], who: Asker, online: bool) -> None:
    gateway = GatewayFact("berlin", online)
    found = decided(who, AskedResource(WIKI, "bob", policies), (gateway,))
    stood: dict[str, bool] = {}
    for step in found.steps:
        if step.check not in (Check.DEVICE, Check.NAME, Check.GATEWAY):
            stood[step.subject] = stood.get(step.subject, True) and step.denial is None
    asked_gateways = [step for step in found.steps if step.check is Check.GATEWAY]
    assert bool(asked_gateways) == any(stood.values())
    assert isinstance(found.verdict, Permit) == (any(stood.values()) and online)
    if isinstance(found.verdict, Denial):
        denials = [step.denial for step in found.steps if step.denial]
        assert found.verdict in denials
