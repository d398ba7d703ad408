"""The invitation link, in both forms: read, refused, and made."""

from __future__ import annotations

import pytest
from culvert_proto import CulvertError, Reason
from culvert_proto.invitation_link import LONGEST, Invitation, make_page_link, parse_invitation
from hypothesis import given
from hypothesis import strategies as st

CA = "ab" * 32
DESKTOP = f"culvert://enroll?controller=https://vpn.corp.example:8443&token=SECRET&ca=sha256:{CA}"
PAGE = f"https://vpn.corp.example:8443/enroll#SECRET.{CA}"
FOUND = Invitation("https://vpn.corp.example:8443", "vpn.corp.example", 8443, "SECRET", bytes.fromhex(CA))


@pytest.mark.parametrize("link", [DESKTOP, PAGE, f"  {PAGE}\n", PAGE.replace("/enroll#", "/enroll/#")])
def test_both_forms_say_the_same_and_hide_the_token(link: str) -> None:
    assert parse_invitation(link) == FOUND
    assert "SECRET" not in repr(FOUND)


def test_a_made_link_is_read_again() -> None:
    own = "https://vpn.corp.example:8443"
    assert make_page_link(own, own, "SECRET", bytes.fromhex(CA)) == PAGE
    behind_proxy = make_page_link("https://vpn.example", own, "SECRET", bytes.fromhex(CA))
    assert behind_proxy == f"https://vpn.example/enroll#SECRET.{CA}.vpn.corp.example:8443"
    assert parse_invitation(behind_proxy) == FOUND
    six = "https://[2001:db8::1]"
    assert parse_invitation(make_page_link(six, six, "t_-", bytes(32))) == Invitation(
        "https://[2001:db8::1]:443", "2001:db8::1", 443, "t_-", bytes(32)
    )


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("", "begins neither"),
        ("--socket=/tmp/evil", "begins neither"),
        (f"{DESKTOP}&more={'x' * LONGEST}", "too long"),
        (f"{PAGE}\x1b[2J", "characters"),
        (DESKTOP.replace("corp", "cоrp"), "characters"),  # a Cyrillic о
        (PAGE.replace("corp", "cоrp"), "characters"),
        (DESKTOP.replace("culvert:", "http:"), "begins neither"),
        (PAGE.replace("https:", "http:"), "begins neither"),
        (DESKTOP.replace("enroll", "enroll.evil.example"), "begins neither"),
        (DESKTOP.replace("enroll?", "enroll/../open?"), "begins neither"),
        ("https://192.0.2.10/", "controller's page"),
        (PAGE.replace("/enroll", "/x/../enroll"), "controller's page"),
        (PAGE.replace("/enroll#", "/enroll?token=SECRET#"), "controller's page"),
        (f"https://filter.example/?url={PAGE.replace('#', '%23')}", "controller's page"),
        (PAGE.partition("#")[0], "missing or cut"),
        (PAGE[:-1], "missing or cut"),
        (f"{PAGE}.", "missing or cut"),
        (f"{PAGE}.evil@vpn.corp.example", "not an https URL"),
        (f"{PAGE}.vpn.corp.example/x", "not an https URL"),
        (f"{PAGE}.vpn.corp.example:x", "not a URL"),
        (PAGE.replace("SECRET", "SEC%0ARET"), "missing or cut"),
        (PAGE.replace("https://vpn", "https://SECRET@vpn"), "not an https URL"),
        (PAGE.replace("vpn.corp.example", ""), "not an https URL"),
        (PAGE.replace(":8443", ":x"), "not a URL"),
        (DESKTOP.replace("https:", "http:"), "not an https URL"),
        (DESKTOP.replace("https://", "https://vpn.corp.example@evil.example/"), "not an https URL"),
        (DESKTOP.replace("vpn.corp.example:8443", ""), "not an https URL"),
        (DESKTOP.replace(":8443", ":8443/enroll"), "not an https URL"),
        (DESKTOP.replace("https://vpn.corp.example:8443", "https://[::1"), "not a URL"),
        (DESKTOP.replace("token=SECRET", "token="), "each once"),
        (DESKTOP.replace("token=SECRET&", ""), "each once"),
        (f"{DESKTOP}&token=SECRET2", "each once"),
        (f"{DESKTOP}&controller=https://evil.example", "each once"),
        (DESKTOP + "".join(f"&n{number}=SECRET" for number in range(9)), "not a link"),
        ("culvert://enroll", "each once"),
        ("culvert://enroll?%", "not a link"),
        (DESKTOP.replace("sha256", "md5"), "fingerprint"),
    ],
)
def test_another_link_is_refused_with_a_reason_and_not_repeated(link: str, why: str) -> None:
    with pytest.raises(CulvertError, match=why) as refused:
        parse_invitation(link)
    assert refused.value.reason is Reason.INVITATION_UNREADABLE
    assert "SECRET" not in str(refused.value)


@given(
    st.text()
    | st.text().map(lambda text: DESKTOP + text)
    | st.text().map(lambda text: f"culvert://enroll?{text}")
    | st.text().map(lambda text: f"https://{text}")
    | st.text().map(lambda text: f"culvert://enroll?token=t&ca=sha256:{CA}&controller={text}")
)
def test_any_text_is_an_invitation_or_a_refusal(link: str) -> None:
    try:
        parse_invitation(link)
    except CulvertError as error:
        assert error.reason is Reason.INVITATION_UNREADABLE  # noqa: PT017 (any other exception fails the test)
