"""Names, the schedule, the key file and the settings."""

from __future__ import annotations

import base64
import ipaddress
import os
from pathlib import Path

import dns.exception
import dns.message
import dns.rcode
import pytest
from culvert_db.published import published_name
from culvert_dns_updater import schedule, serving, settings, tsig_key, wire
from culvert_dns_updater.batch import MESSAGE_BYTES, Dispatch, batches
from culvert_dns_updater.desired import Intent, ZoneProfile, names_in, names_without_zone
from culvert_dns_updater.diff import Change, diff
from culvert_dns_updater.memory import Memory
from culvert_dns_updater.records import Ownership
from culvert_dns_updater.settings import SettingsError
from culvert_dns_updater.transfer import Transfer
from culvert_dns_updater.tsig_key import KeyDirectory, KeyFileError, TsigKey
from culvert_proto import CulvertError, Reason
from hypothesis import given
from hypothesis import strategies as st

SECRET = "yCJ/LLYUxkTCI2NWytpJsrIPVDW0vZ7f09yzGRhNgyM="
BIND_KEY = f"""
# made by tsig-keygen
key "culvert-dns" {{
        algorithm hmac-sha256;
        secret "{SECRET}";
}};
"""


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_wait_is_bounded_and_grows(failures: int, chance: float) -> None:
    now = schedule.wait(failures, 30, chance)
    assert 0.5 <= now <= schedule.RETRY.longest
    if failures:
        assert schedule.wait(failures + 1, 30, 0) >= now / 2
    else:
        assert now == 30


def test_a_zone_that_takes_long_is_polled_seldom() -> None:
    assert schedule.poll_after(30, 0.1, 0.1) == 30
    assert schedule.poll_after(30, 9, 9.5) == 90


def test_one_delayed_pass_does_not_put_the_next_poll_off() -> None:
    assert schedule.poll_after(30, 12, 0.2) == schedule.poll_after(30, 0.2, 12) == 30
    # The first pass of a run.
    assert schedule.poll_after(30, 12, 0) == 30


def test_names_take_one_form() -> None:
    assert published_name("Wiki.Corp.Example.") == "wiki.corp.example"
    # Not as IDNA 2003 has it: "strasse" is another name.
    assert published_name("Straße.example") == "xn--strae-oqa.example"
    assert published_name("a..b") is None
    assert published_name(".") is None
    assert published_name("x" * 64 + ".example") is None
    assert published_name(".".join(["x" * 49] * 5)) is None  # no room for the owner name


def _zone(
    origin: str, *, name: str = "", only: frozenset[str] | None = None, retiring: bool = False
) -> ZoneProfile:
    return ZoneProfile(
        id=0,
        name=name or origin,
        origin=origin,
        server="192.0.2.53",
        port=53,
        key="k",
        ownership=Ownership("default", 60),
        only=only,
        retiring=retiring,
    )


def _placed(*zones: ZoneProfile) -> tuple[list[set[str]], set[str]]:
    names = ("wiki.corp.example", "a.lab.corp.example", "notcorp.example")
    intent = Intent(zones, tuple((name, ipaddress.ip_address("10.20.0.10")) for name in names))
    return [set(names_in(zone, intent)) for zone in zones], set(names_without_zone(intent))


def test_resources_go_into_the_most_specific_zone() -> None:
    found = _placed(_zone("corp.example"), _zone("lab.corp.example"))
    assert found == ([{"wiki.corp.example"}, {"a.lab.corp.example"}], {"notcorp.example"})


def test_a_view_holds_what_was_chosen_for_it() -> None:
    inside = _zone("corp.example", name="inside")
    outside = _zone("corp.example", name="outside", only=frozenset({"wiki.corp.example"}))
    both = {"wiki.corp.example", "a.lab.corp.example"}
    assert _placed(inside, outside) == ([both, {"wiki.corp.example"}], {"notcorp.example"})
    assert _placed(outside)[1] == {"a.lab.corp.example", "notcorp.example"}


def test_a_zone_that_retires_holds_nothing() -> None:
    placed, left = _placed(_zone("corp.example", retiring=True))
    assert (placed, len(left)) == ([set()], 3)


def _changes(count: int) -> list[Change]:
    names = {f"host-{i}.corp.example": frozenset({ipaddress.ip_address("2001:db8::1")}) for i in range(count)}
    return list(diff(names, {}, Ownership("default", 60), "corp.example").changes)


def test_a_message_is_never_longer_than_tcp_carries() -> None:
    key = TsigKey("k", SECRET, "hmac-sha512")
    sent = batches(_changes(1000))
    assert [change for batch in sent for change in batch] == _changes(1000)
    assert len(sent) < 10
    assert all(len(wire.encode(batch, "corp.example", key).to_wire()) < MESSAGE_BYTES for batch in sent)


@given(st.integers(1, 300), st.sets(st.integers(0, 299), max_size=5))
def test_bisecting_a_refused_batch_finds_the_bad_changes(count: int, bad: set[int]) -> None:
    changes = _changes(count)
    blamed = {changes[i].name for i in bad if i < count}
    dispatch, done, refused = Dispatch(changes), list[str](), list[str]()
    while batch := dispatch.next():
        names = [change.name for change in batch]
        if blamed & set(names):
            refused += names if dispatch.refuse(batch) else []
        else:
            dispatch.accept()
            done += names
    assert sorted(refused) == sorted(blamed)
    assert sorted(done + refused) == sorted(change.name for change in changes)


def test_a_server_that_refuses_everything_is_not_asked_name_by_name() -> None:
    dispatch, asked, refused = Dispatch(_changes(1000)), 0, 0
    while batch := dispatch.next():
        asked += 1
        refused += dispatch.refuse(batch)
    assert (refused, len(dispatch.list_untried()), asked < 40) == (8, 992, True)


def test_only_a_refused_change_waits_longer_each_time() -> None:
    memory, (bad, good) = Memory(), _changes(2)
    error = CulvertError(Reason.DNS_UPDATE_REFUSED, server="s", zone="z", why="w")
    now, waits = 1000.0, list[float]()
    for _ in range(20):
        memory.note((bad, good), {bad: error}, is_unfinished=False, now=now, chance=0)
        due = memory.due()
        assert due is not None
        assert memory.list_waiting(due - 0.01) == {bad: error}
        assert memory.list_waiting(due) == {}
        waits.append(due - now)
        now = due
    assert waits == sorted(waits)
    assert waits[-1] == schedule.RETRY.longest / 2
    memory.note((bad, good), {}, is_unfinished=False, now=now, chance=0)
    assert memory.due() is None


def test_a_refused_query_counts_as_served() -> None:
    answer = dns.message.make_response(serving.question("wiki.corp.example", "A"))
    for rcode, why in ((dns.rcode.REFUSED, None), (dns.rcode.NXDOMAIN, (None, "it answers NXDOMAIN"))):
        answer.set_rcode(rcode)
        told = serving.difference(answer, "wiki.corp.example", "A", frozenset({"10.0.0.1"}), "corp.example")
        assert told == why


def _write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@given(st.one_of(st.binary(min_size=16, max_size=64), st.just(b"\xff" * 32)))
def test_every_secret_is_read_back(tmp_path_factory: pytest.TempPathFactory, secret: bytes) -> None:
    text = base64.b64encode(secret).decode()
    file = _write(tmp_path_factory.mktemp("key") / "key", BIND_KEY.replace(SECRET, text))
    assert tsig_key.load(file).secret == secret


def test_both_forms_of_the_key_are_one_key(tmp_path: Path) -> None:
    bind = tsig_key.load(_write(tmp_path / "bind.key", BIND_KEY))
    bare = tsig_key.load(_write(tmp_path / "culvert-dns.key", SECRET + "\n"))
    assert bind == bare


def test_this_process_group_may_read_a_key_as_kubernetes_gives_it(tmp_path: Path) -> None:
    file = _write(tmp_path / "key", BIND_KEY, 0o440)
    assert tsig_key.load(file).secret
    os.chown(file, -1, os.getegid() + 1)
    with pytest.raises(KeyFileError, match="mode 0440"):
        tsig_key.load(file)


def test_a_keys_name_leads_out_of_no_directory(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    _write(tmp_path / "other.key", BIND_KEY)
    _write(tmp_path / "keys" / "right.key", BIND_KEY)
    keys = KeyDirectory(tmp_path / "keys")
    assert keys("right").name.to_text() == "culvert-dns."
    for name in ("../other", "/etc/passwd", "", "."):
        with pytest.raises(KeyFileError):
            keys(name)


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (BIND_KEY, 0o644, "mode 0644"),
        (BIND_KEY, 0o660, "mode 0660"),
        ("", 0o600, "not a TSIG key file"),
        (BIND_KEY.replace("hmac-sha256", "hmac-md5"), 0o600, "algorithm"),
        (BIND_KEY.replace(SECRET, "A"), 0o600, "malformed"),
        (BIND_KEY.replace("secret", "server"), 0o600, "not a TSIG key file"),
    ],
)
def test_an_unusable_key_file_is_refused_without_quoting_it(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    with pytest.raises(KeyFileError, match=why) as caught:
        tsig_key.load(_write(tmp_path / "key", text, mode))
    assert SECRET not in str(caught.value)


def test_the_key_does_not_show_its_secret(tmp_path: Path) -> None:
    key = tsig_key.load(_write(tmp_path / "key", BIND_KEY))
    assert SECRET not in f"{key!r} {key}"


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _write(
        tmp_path / "updater.toml",
        'key_dir = "/k"\npoll_seconds = 7\ndatabase_url_file = "/d"\n',
    )
    monkeypatch.setenv("CULVERT_DNS_KEY_DIR", "/other")
    found = settings.load(file)
    assert (found.poll_seconds, found.key_dir) == (7, Path("/other"))


def test_wrong_settings_are_told_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CULVERT_DNS_DATABASE_URL", "postgresql://culvert:hunter2@db/culvert")
    monkeypatch.setenv("CULVERT_DNS_POLL_SECONDS", "hunter2")
    with pytest.raises(SettingsError, match="poll_seconds") as caught:
        settings.load(None)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.load(tmp_path / "absent.toml")


@given(st.binary(max_size=300), st.integers(0, 3))
def test_no_message_breaks_a_transfer(body: bytes, answers: int) -> None:
    transfer = Transfer("corp.example", TsigKey("k", SECRET, "hmac-sha256"))
    head = transfer.query[:2] + b"\x80\x00\x00\x00" + answers.to_bytes(2) + b"\x00\x00\x00\x00"
    with pytest.raises(dns.exception.DNSException):
        transfer.receive(head + body, 0)


def test_names_that_point_at_each_other_end() -> None:
    transfer = Transfer("corp.example", TsigKey("k", SECRET, "hmac-sha256"))
    head = transfer.query[:2] + b"\x80\x00\x00\x00\x00\x01\x00\x00\x00\x00"
    chain = b"".join((0xC000 | 12 + max(0, 2 * it - 2)).to_bytes(2) for it in range(8000))
    with pytest.raises(dns.exception.FormError):
        transfer.receive(head + chain, 0)
