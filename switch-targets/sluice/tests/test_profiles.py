"""Action profiles and selectors: `programs/selectors.p4`."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from finsy.p4entity import encode_updates
from finsy.proto import p4r
from gateway_rig import QUIET
from gateway_wires import Wire, run
from sluice_entries import read
from sluice_rig import SWITCH, Controller
from test_p4runtime import raw

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
CODE = fy.GRPCStatusCode
PROFILE, BALANCER = "profile", "balancer"
WAN, LAN = 1, 2


@pytest.fixture
async def switch(controller: Controller) -> AsyncIterator[fy.Switch]:
    program = PROGRAMS / "selectors.p4info.txtpb"
    async with controller(p4info=program, p4blob=PROGRAMS / "selectors.json") as switch:
        yield switch


def to(port: int, member: int) -> fy.P4TableAction:
    return fy.Action("to", port=port, member=member)


def member(number: int, port: int = LAN, profile: str = BALANCER) -> fy.P4ActionProfileMember:
    return fy.P4ActionProfileMember(profile, member_id=number, action=to(port, number))


def group(number: int, *members: tuple[int, Any], max_size: int = 8) -> fy.P4ActionProfileGroup:
    listed = [fy.P4Member(member, weight=weight) for member, weight in members]
    return fy.P4ActionProfileGroup(BALANCER, group_id=number, members=listed, max_size=max_size)


def entry(key: int, action: fy.P4IndirectAction | None, table: str = "by_group") -> fy.P4TableEntry:
    return fy.P4TableEntry(table, match=fy.Match(table_key=key), action=action)


def one_shot(*weighted: tuple[Any, int], **modes: Any) -> fy.P4IndirectAction:
    return fy.P4IndirectAction([(weight, to(LAN, member)) for weight, member in weighted], **modes)


MEMBER_1 = fy.P4IndirectAction(member_id=1)
GROUP_1 = fy.P4IndirectAction(group_id=1)


async def refused(switch: fy.Switch, update: Any) -> tuple[CODE, str]:
    """The code and text that an update is refused with; it has changed nothing."""
    before = await everything(switch)
    with pytest.raises(fy.P4ClientError) as refusal:
        await switch.write([update])
    assert await everything(switch) == before
    (detail,) = refusal.value.details.values()
    return detail.canonical_code, detail.message


async def atomic(switch: fy.Switch, *updates: Any) -> None:
    """Write all updates or none."""
    encoded: Any = encode_updates(updates, switch.p4info)
    atomicity = p4r.WriteRequest.ROLLBACK_ON_ERROR
    await raw(switch, p4r.WriteRequest(device_id=1, updates=encoded, atomicity=atomicity))


async def everything(switch: fy.Switch) -> list[Any]:
    return await read(switch, fy.P4TableEntry(), fy.P4ActionProfileMember(), fy.P4ActionProfileGroup())


def probe(key: int, flow: int) -> bytes:
    return key.to_bytes(2) + (flow * 2654435761 % 2**32).to_bytes(4) + bytes(58)


def taken(wan: Wire, lan: Wire, key: int, flows: int = 200) -> Counter[int]:
    """Count the flows by the member that they took."""
    for flow in range(flows):
        wan.send(probe(key, flow))
    return Counter(bytes(packet)[6] for packet in lan.drain() if bytes(packet)[:2] == key.to_bytes(2))


class TestMembers:
    async def test_entries_follow_the_member_that_they_name(
        self, switch: fy.Switch, wan: Wire, lan: Wire
    ) -> None:
        one = member(1, profile=PROFILE)
        await switch.insert([one])
        await switch.insert([entry(key, MEMBER_1, "by_member") for key in (7, 8)])
        assert taken(wan, lan, 7, 3) == {1: 3}
        drop = fy.P4ActionProfileMember(PROFILE, member_id=1, action=fy.Action("drop"))
        await switch.modify([drop])
        assert not taken(wan, lan, 7, 3) + taken(wan, lan, 8, 3)
        assert await read(switch, fy.P4ActionProfileMember()) == [drop]
        assert [it.action for it in await read(switch, fy.P4TableEntry("by_member"))] == [MEMBER_1, MEMBER_1]

    async def test_reads_take_wildcards(self, switch: fy.Switch) -> None:
        first, second, other = member(1), member(2), member(1, profile=PROFILE)
        await switch.insert([second, first, other])
        found = await read(switch, fy.P4ActionProfileMember())
        assert sorted(found, key=repr) == sorted([first, second, other], key=repr)
        assert await read(switch, fy.P4ActionProfileMember(BALANCER)) == [first, second]
        assert await read(switch, fy.P4ActionProfileMember(BALANCER, member_id=2)) == [second]
        with pytest.raises(fy.P4ClientError, match="no member has the id 3"):
            await read(switch, fy.P4ActionProfileMember(BALANCER, member_id=3))

    async def test_refusals(self, switch: fy.Switch) -> None:
        await switch.insert([member(1), member(2), group(1, (2, 1))])
        await switch.insert([entry(7, MEMBER_1)])
        bare = fy.P4ActionProfileMember(BALANCER, member_id=3)
        for update, code, text in (
            (+member(1), CODE.ALREADY_EXISTS, "member 1 of action profile 'SelectorIngress.balancer'"),
            (~member(3), CODE.NOT_FOUND, "no member has the id 3"),
            (-member(3), CODE.NOT_FOUND, "no member has the id 3"),
            (+bare, CODE.INVALID_ARGUMENT, "the action is not set"),
            (+member(0), CODE.INVALID_ARGUMENT, "the id must not be 0"),
            (-member(1), CODE.FAILED_PRECONDITION, "an entry names it"),
            (-member(2), CODE.FAILED_PRECONDITION, "is in a group"),
            (+entry(8, fy.P4IndirectAction(member_id=3)), CODE.NOT_FOUND, "no member has the id 3"),
            (+entry(8, fy.P4IndirectAction(group_id=3)), CODE.NOT_FOUND, "no group has the id 3"),
            (+entry(8, GROUP_1, "by_member"), CODE.INVALID_ARGUMENT, "has no selector"),
            (~entry(7, fy.P4IndirectAction(group_id=3)), CODE.NOT_FOUND, "no group has the id 3"),
        ):
            assert (answer := await refused(switch, update))[0] == code, answer
            assert text in answer[1]
        direct = fy.P4TableEntry("by_group", match=fy.Match(table_key=8), action=to(LAN, 1))
        assert (await refused(switch, +direct))[0] == CODE.INVALID_ARGUMENT
        await switch.insert([member(number) for number in range(3, 17)])
        assert (await refused(switch, +member(17)))[0] == CODE.RESOURCE_EXHAUSTED
        await switch.delete([entry(7, None), group(1)])
        await switch.delete([member(1), member(2)])


class TestGroups:
    async def test_flows_are_spread_by_weight_and_each_stays(
        self, switch: fy.Switch, wan: Wire, lan: Wire
    ) -> None:
        await switch.insert([member(1), member(2)])
        await switch.insert([group(1, (1, 1), (2, 3))])
        await switch.insert([entry(7, GROUP_1)])
        spread = taken(wan, lan, 7)
        assert sum(spread.values()) == 200
        assert spread[1] in range(25, 76)
        assert taken(wan, lan, 7) == spread
        await switch.modify([group(1, (1, 1))])
        assert taken(wan, lan, 7) == {1: 200}
        assert await read(switch, fy.P4ActionProfileGroup(BALANCER)) == [group(1, (1, 1))]

    async def test_an_empty_group_does_nothing(self, switch: fy.Switch, wan: Wire, lan: Wire) -> None:
        await switch.insert([group(1), entry(7, GROUP_1)])
        assert not taken(wan, lan, 7, 3)

    async def test_members_whose_watch_port_is_closed_are_passed_over(
        self, switch: fy.Switch, wan: Wire, lan: Wire
    ) -> None:
        # Packets that take member 1 go nowhere, so that its port need not be the one that is watched.
        await switch.insert([member(1), member(2), group(1, (1, (1, LAN)), (2, (1, WAN)))])
        await switch.insert([entry(7, GROUP_1)])
        watching = group(1, (1, (1, LAN)), (2, (1, WAN)))
        assert await read(switch, fy.P4ActionProfileGroup(BALANCER, group_id=1)) == [watching]
        assert set(taken(wan, lan, 7)) == {1, 2}
        await switch.modify([member(1, WAN), member(2, WAN)])
        run("ip", "-n", SWITCH, "link", "set", "lan", "down")
        try:
            for _ in range(30):
                wan.drain(QUIET)
                if set(taken(wan, wan, 7)) == {2}:
                    break
            else:
                pytest.fail("member 1 is still taken three seconds after its port went down")
        finally:
            run("ip", "-n", SWITCH, "link", "set", "lan", "up")
        for _ in range(30):
            if set(taken(wan, wan, 7)) == {1, 2}:
                return
        pytest.fail("member 1 is not taken three seconds after its port came back")

    async def test_refusals(self, switch: fy.Switch) -> None:
        await switch.insert([member(1), member(2)])
        await switch.insert([group(1, (1, 8)), group(2, max_size=4)])
        await switch.insert([entry(7, GROUP_1)])
        legacy = p4r.ActionProfileGroup.Member(member_id=1, weight=1, watch=1)
        profile = switch.p4info.action_profiles[BALANCER].id
        watched = p4r.ActionProfileGroup(action_profile_id=profile, group_id=3, members=[legacy])
        for update, code, text in (
            (+group(1), CODE.ALREADY_EXISTS, "a group with id 1 exists"),
            (~group(3), CODE.NOT_FOUND, "no group has the id 3"),
            (-group(3), CODE.NOT_FOUND, "no group has the id 3"),
            (-group(1), CODE.FAILED_PRECONDITION, "an entry names group 1"),
            (+group(0), CODE.INVALID_ARGUMENT, "the id must not be 0"),
            (+group(3, (3, 1)), CODE.NOT_FOUND, "no member has the id 3"),
            (+group(3, (1, 1), (1, 1)), CODE.INVALID_ARGUMENT, "member 1 is given twice"),
            (+group(3, (1, 0)), CODE.INVALID_ARGUMENT, "weight 0"),
            (+group(3, (1, -1)), CODE.INVALID_ARGUMENT, "weight -1 is negative"),
            (+group(3, (1, (1, 9))), CODE.INVALID_ARGUMENT, "is not a port of this switch"),
            (+group(3, (1, 5), (2, 4)), CODE.RESOURCE_EXHAUSTED, "would have size 9"),
            (+group(3, max_size=9), CODE.INVALID_ARGUMENT, "max_group_size of 8"),
            (+group(3, max_size=-1), CODE.INVALID_ARGUMENT, "max_size -1 is negative"),
            (~group(2, max_size=5), CODE.INVALID_ARGUMENT, "max_size can't be changed"),
            (~group(2, (1, 5), max_size=4), CODE.RESOURCE_EXHAUSTED, "would have size 5"),
            (
                p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(action_profile_group=watched)),
                CODE.UNIMPLEMENTED,
                "use watch_port",
            ),
        ):
            assert (answer := await refused(switch, update))[0] == code, answer
            assert text in answer[1]
        await switch.insert([group(3, (1, 4), max_size=0)])
        answer = await refused(switch, +group(4, (1, 5)))
        assert answer[0] == CODE.RESOURCE_EXHAUSTED, "16 in all groups"


class TestOneShots:
    async def test_a_one_shot_is_its_entry_s(self, switch: fy.Switch, wan: Wire, lan: Wire) -> None:
        first = entry(7, one_shot((1, 1), (3, 2), ((1, WAN), 3)))
        await switch.insert([first])
        assert await everything(switch) == [first]
        assert set(taken(wan, lan, 7)) == {1, 2, 3}
        modes = {
            "selection_mode": fy.P4ActionSelectionMode.HASH,
            "size_semantics": fy.P4ActionSizeSemantics.SUM_OF_WEIGHTS,
        }
        second = entry(7, one_shot((2, 4), (2, 4), **modes))
        await switch.modify([second])
        assert await everything(switch) == [second]
        assert set(taken(wan, lan, 7)) == {4}
        await switch.modify([entry(7, None)])
        assert await everything(switch) == [second]
        await switch.delete([entry(7, None)])
        assert await everything(switch) == []
        await switch.insert([member(1)])

    async def test_refusals(self, switch: fy.Switch) -> None:
        await switch.insert([entry(7, one_shot((8, 1)))])
        random = fy.P4ActionSelectionMode.RANDOM
        by_count = fy.P4ActionSizeSemantics.SUM_OF_MEMBERS
        for update, code, text in (
            (+member(1), CODE.INVALID_ARGUMENT, "do not go together"),
            (+group(1), CODE.INVALID_ARGUMENT, "do not go together"),
            (+entry(8, MEMBER_1), CODE.NOT_FOUND, "no member has the id 1"),
            (+entry(7, one_shot((1, 1))), CODE.ALREADY_EXISTS, "exists"),
            (+entry(8, one_shot((0, 1))), CODE.INVALID_ARGUMENT, "weight 0"),
            (+entry(8, one_shot((5, 1), (4, 2))), CODE.INVALID_ARGUMENT, "max_group_size is 8"),
            (+entry(8, one_shot(((1, 9), 1))), CODE.INVALID_ARGUMENT, "is not a port of this switch"),
            (+entry(8, one_shot((1, 1), selection_mode=random)), CODE.UNIMPLEMENTED, "RANDOM"),
            (+entry(8, one_shot((1, 1), size_semantics=by_count)), CODE.UNIMPLEMENTED, "size_semantics"),
            (+entry(8, one_shot((1, 1)), "by_member"), CODE.INVALID_ARGUMENT, "has no selector"),
        ):
            assert (answer := await refused(switch, update))[0] == code, answer
            assert text in answer[1]
        await switch.insert([entry(8, one_shot((8, 1)))])
        assert (await refused(switch, +entry(9, one_shot((1, 1)))))[0] == CODE.RESOURCE_EXHAUSTED
        await switch.delete([entry(7, None), entry(8, None)])
        await switch.insert([member(1)])
        answer = await refused(switch, +entry(7, one_shot((1, 1))))
        assert answer[0] == CODE.INVALID_ARGUMENT
        assert "do not go together" in answer[1]

    async def test_a_new_program_starts_with_empty_profiles(self, controller: Controller) -> None:
        for _ in range(2):
            async with controller(
                p4info=PROGRAMS / "selectors.p4info.txtpb",
                p4blob=PROGRAMS / "selectors.json",
                p4force=True,
            ) as switch:
                assert await everything(switch) == []
                await switch.insert([member(1), group(1, (1, 1)), entry(7, GROUP_1)])

    async def test_a_program_pushed_to_be_reconciled_keeps_profiles(self, switch: fy.Switch) -> None:
        manual = [member(1, profile=PROFILE), entry(7, MEMBER_1, "by_member")]
        await switch.insert([*manual, entry(8, one_shot((1, 1), ((2, WAN), 2)))])
        before = await everything(switch)
        config = p4r.ForwardingPipelineConfig(
            p4info=switch.p4info.p4info, p4_device_config=(PROGRAMS / "selectors.json").read_bytes()
        )
        action = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT
        await raw(switch, p4r.SetForwardingPipelineConfigRequest(device_id=1, action=action, config=config))
        assert await everything(switch) == before
        assert (await refused(switch, -member(1, profile=PROFILE)))[0] == CODE.FAILED_PRECONDITION
        assert (await refused(switch, +member(1)))[0] == CODE.INVALID_ARGUMENT


class TestAtomicity:
    async def test_a_batch_that_fails_leaves_members_groups_and_entries(self, switch: fy.Switch) -> None:
        await switch.insert([member(1), member(2), group(1, (1, 1)), entry(7, GROUP_1)])
        before = await everything(switch)
        with pytest.raises(fy.P4ClientError, match="undone: update 7 failed"):
            await atomic(
                switch,
                -entry(7, None),
                -group(1),
                -member(1),
                ~member(2, WAN),
                +group(3, (2, 8)),
                ~group(3, (2, 7)),
                +entry(9, fy.P4IndirectAction(group_id=3)),
                +member(2),
            )
        assert await everything(switch) == before
        assert (await refused(switch, -member(1)))[0] == CODE.FAILED_PRECONDITION

    async def test_a_batch_that_fails_leaves_one_shots(self, switch: fy.Switch) -> None:
        modes = {"selection_mode": fy.P4ActionSelectionMode.HASH}
        await switch.insert([entry(7, one_shot((8, 1), **modes)), entry(8, one_shot((8, 2)))])
        before = await everything(switch)
        with pytest.raises(fy.P4ClientError, match="undone: update 2 failed"):
            await atomic(switch, -entry(8, None), ~entry(7, one_shot((3, 3))), +entry(7, one_shot((1, 1))))
        assert await everything(switch) == before
