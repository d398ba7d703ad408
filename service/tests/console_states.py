"""The dialogs, menus and faults of the console as data: the page at which each begins, and the steps that lead to it.

Texts are English; the German ones come from the console's catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polib

_GERMAN = Path(__file__).resolve().parents[1] / "console/src/locale/de.po"
# The message without a context stands last, and counts, if a word has several meanings.
_IN_GERMAN = {
    entry.msgid: entry.msgstr
    for entry in sorted(polib.pofile(str(_GERMAN)), key=lambda entry: entry.msgctxt or "", reverse=True)
}


@dataclass(frozen=True)
class Message:
    """A message of the catalogue and its values: "Delete {name}?"."""

    text: str
    values: Mapping[str, Words]


Words = str | Message


def message(text: str, *numbered: Words, **named: Words) -> Message:
    return Message(text, {str(place): value for place, value in enumerate(numbered)} | named)


def say(words: Words, language: str) -> str:
    """A text that the catalogue lacks, such as the name of a thing, is the same in each language."""
    text = words if isinstance(words, str) else words.text
    if language == "de":
        text = _IN_GERMAN.get(text, text)
    if not isinstance(words, str):
        for name, value in words.values.items():
            text = text.replace(f"{{{name}}}", say(value, language))
    return text


@dataclass(frozen=True)
class Press:
    name: Words
    role: Literal["button", "checkbox", "link", "menuitem", "option", "tab"] = "button"
    # Only on a small screen.
    is_narrow: bool = False


@dataclass(frozen=True)
class Click:
    """An element with this text that has no role, such as one of two choices beside each other."""

    text: Words


@dataclass(frozen=True)
class Fill:
    label: Words
    value: str


@dataclass(frozen=True)
class Code:
    """Types a code of the authenticator whose secret is shown, or of the one of the administrator."""

    label: Words


@dataclass(frozen=True)
class Open:
    """Opens the list of a field."""

    label: Words


@dataclass(frozen=True)
class Choose:
    """An option of a field's list, which stays open if the field takes several."""

    label: Words
    option: Words


@dataclass(frozen=True)
class Keys:
    keys: str


@dataclass(frozen=True)
class Into:
    """Waits for a dialog, in which the next steps are."""

    title: Words


@dataclass(frozen=True)
class See:
    """Waits for a text, or for an element by a CSS selector."""

    words: Words = ""
    css: str = ""


@dataclass(frozen=True)
class Meanwhile:
    """A change that another administrator makes."""

    path: str
    fields: Mapping[str, object]


@dataclass(frozen=True)
class Age:
    """The administrator's proof of identity is older than changes of access allow."""


Step = Press | Click | Fill | Code | Open | Choose | Keys | Into | See | Meanwhile | Age


@dataclass(frozen=True)
class State:
    name: str
    # None: where the state before has led. In braces: a link that the test makes.
    at: str | None
    steps: tuple[Step, ...]
    # Calls that the network loses, and those that the controller does not answer.
    lost: str = ""
    silent: str = ""
    # Only on a small screen.
    is_narrow: bool = False


def state(
    name: str, at: str | None, *steps: Step, lost: str = "", silent: str = "", is_narrow: bool = False
) -> State:
    return State(name, at, steps, lost, silent, is_narrow)


PASSWORD = "correct horse battery"
WRONG = "wrong horse battery"
FAULT = See(css=".mantine-InputWrapper-error")
ALERT = See(css="[role=alert]")
OPTIONS = See(css="[role=option]")
MENU = See(css="[role=menuitem]")
NAME, PROOF = Fill("Name", "ada"), Fill("Password", PASSWORD)

# Each with its page; nobody is signed in.
SIGNED_OUT = (
    state("sign-in", "", See("Sign in")),
    state(
        "sign-in-refused", None, Fill("Name", "olga"), PROOF, Fill("Code", "000000"), Press("Sign in"), ALERT
    ),
    state("setup-without-token", "setup", See("Make your account")),
    state("setup", "{setup}", NAME, PROOF, See("Make your account")),
    state("setup-code", None, Press("Continue"), See("Scan this with your authenticator")),
    state("setup-code-refused", None, Fill("A code that it shows", "000000"), Press("Sign in"), FAULT),
    state("setup-codes", None, Code("A code that it shows"), Press("Sign in"), See(css="[data-codes]")),
    state("setup-refused", "setup#token=used", ALERT),
)

# At a controller without anything.
EMPTY = (
    state("first-steps", "", See("First steps")),
    state("no-resource", "resources", See("No resources yet")),
    state("no-resource-nor-zone", "resources/new", Open("Gateways"), See("None yet")),
    state("no-gateway", "gateways", See("No gateway yet")),
    state("no-site-tunnel", "site-tunnels", See("No site tunnel yet")),
    state("no-person", "people", See("No people yet")),
    state("no-invitation", "invitations", See("No open invitations")),
    state("no-group", "groups", See("No groups yet")),
    state("no-device", "devices", See("No devices yet")),
    state("no-policy", "policies", See("No policies yet")),
    state("no-assertion", "assertions", See("No assertions yet")),
    state("no-zone", "dns", See("Add the name server")),
    state("no-token", "settings?part=tokens", See("No tokens")),
)

# As the test adds her.
ANNEGRET = "Dr. Annegret Freifrau von Hohenstein-Weißenburg"
UNFOLD = Press("Filters", is_narrow=True)
MAXIMILIANE = "maximiliane.von.hohenstein"
NAME_TO_OPEN = "Name that people open"
DOCS = (
    Fill(NAME_TO_OPEN, "docs.corp.example"),
    Fill("Owner", "bob@corp.example"),
    Choose("Gateways", "gw-berlin"),
    Keys("Escape"),
)
OUTSIDE = Fill(NAME_TO_OPEN, "docs.other")
OTHER_OWNER = Meanwhile("/resources/wiki", {"owner": "dave@corp.example"})
REACHES = message("{user} can reach {name}", user="alice", name="wiki.corp.example")
NEW_GATEWAY = (
    Fill("Name", "GW Berlin"),
    Fill("Address", "198.51.100.300"),
    Fill("Address pool", "10.99.1.0/24"),
    Fill("WAN MAC", "02:00"),
    Fill("Router", "198.51.100.1"),
    Fill("LAN MAC", "02:00:00:00:02:01"),
    Fill("LAN address", "10.20.0.1"),
    Fill("LAN prefix", "10.20.0.1/16"),
    Fill("Neighbours", "printer"),
    Press("Add it"),
)
SCOPES = (Choose("Scopes", "read"), Keys("Escape"), Press("Make the token"))

ADDRESS = message("Address or prefix {0}", "1")
DELETE_WIKI = message("Delete {name}?", name="wiki.corp.example")
LAPTOP = message("More about {name} of {user}", name="laptop", user="alice")
ZONE = message("More about {shown}", shown="corp.example")

# At a controller with some of each.
FILLED = (
    state("notices", "", See("Access to this controller has changed, or someone tried to get in")),
    state("notices-dismissed", None, Press("Dismiss"), See("Live")),
    state("navigation", "", Press("Navigation"), See("Policies"), is_narrow=True),
    state("account-menu", "", Press(message("Signed in as {name}", name="ada")), MENU),
    state("commands", "", See("Overview"), Keys("Control+k"), See(css="[data-action]")),
    state("commands-found", None, Fill("Search or jump to", "wiki"), See(css="[data-action] mark")),
    state("commands-none", None, Fill("Search or jump to", "no such thing"), See("No match")),
    # Settings, while the sign-in is a proof of identity
    state("password", "settings", Press("Change password"), Into("Change your password")),
    state(
        "password-refused",
        None,
        Fill("Current password", PASSWORD),
        Code("Code"),
        Fill("New password", "short"),
        Press("Change password"),
        FAULT,
    ),
    state("codes", "settings", Press("Make new codes"), Into("New recovery codes")),
    state("codes-refused", None, PROOF, Fill("Code", "000000"), Press("Make new codes"), ALERT),
    state("codes-made", None, PROOF, Code("Code"), Press("Make new codes"), See(css="[data-codes]")),
    state("codes-remove", "settings", Press("Remove codes"), Into("Remove your recovery codes?")),
    state("authenticator", "settings", Press("Set up a new authenticator"), Into("A new authenticator")),
    state(
        "authenticator-new",
        None,
        PROOF,
        Code("Code"),
        Press("Continue"),
        Into("Scan this with the new authenticator"),
    ),
    state(
        "administrator-invite", "settings?part=administrators&dialog=invite", Into("Invite an administrator")
    ),
    state("administrator-invited", None, Press("Make a link"), See(css="[role=dialog] input[readonly]")),
    state(
        "administrator-roles", "settings?part=administrators", Open(message("Role of {0}", "otto")), OPTIONS
    ),
    state(
        "administrator-role",
        None,
        Press("Admin", "option"),
        Into(message("Give {name} the role {after}?", name="otto", after="Admin")),
    ),
    state(
        "administrator-delete",
        "settings?part=administrators",
        Press(message("Delete {0}", "otto")),
        Into(message("Delete {name}?", name="otto")),
    ),
    state("token-make", "settings?part=tokens&dialog=add", Into("Make a token")),
    state("token-scopes", None, Open("Scopes"), OPTIONS),
    state("token-refused", None, Keys("Escape"), Fill("Name", "No Name"), *SCOPES, FAULT),
    state(
        "token-made", None, Fill("Name", "ci"), Press("Make the token"), Into(message("The token {0}", "ci"))
    ),
    state(
        "token-revoke",
        "settings?part=tokens",
        Press(message("Revoke {0}", "backup")),
        Into(message("Revoke {name}?", name="backup")),
    ),
    # Resources
    state("resources-no-match", "resources?q=nothing", See("Show all")),
    state("resource-refused", "resources/new", *DOCS, Fill(ADDRESS, "10.20.0.300"), Press("Preview"), FAULT),
    state("resource-outside", None, Fill(ADDRESS, "10.20.0.10"), OUTSIDE, Press("Preview"), FAULT),
    state(
        "resource-preview", None, Fill(NAME_TO_OPEN, "docs.corp.example"), Press("Preview"), See("Publish it")
    ),
    state("resource-limits", "resources/new", Press("Encryption, new keys and idle time"), See("Idle time")),
    state(
        "resource-effect", "resources/of/wiki", Fill("Owner", "carol@corp.example"), See(css="[aria-live] ul")
    ),
    state(
        "resource-conflict", None, OTHER_OWNER, Press("Save"), Into("Another administrator has changed this")
    ),
    state(
        "resource-delete",
        "resources/of/wiki",
        Press("Delete"),
        Into(DELETE_WIKI),
        See(css="[role=dialog] ul"),
    ),
    state(
        "resource-carried",
        "resources/of/web",
        Press("Delete"),
        Into(message("Delete {name}?", name="web.corp.example")),
        See("The resource cannot be deleted now"),
    ),
    state("no-such-resource", "resources/of/none", ALERT),
    # Gateways
    state("gateway-refused", "gateways/new", *NEW_GATEWAY, FAULT),
    state(
        "gateway-seldom",
        "gateways/new",
        Press("VLANs, MTUs, legacy suites and device of P4Runtime"),
        See("Allowed legacy suites"),
    ),
    state(
        "gateway-bundle",
        "gateways/of/gw-berlin",
        Press("Make a bundle"),
        Into(message("Bundle of {name}", name="gw-berlin")),
    ),
    state(
        "gateway-drain",
        "gateways/of/gw-berlin",
        Press("Drain"),
        Into(message("Drain {name}?", name="gw-berlin")),
    ),
    state(
        "gateway-delete",
        "gateways/of/gw-berlin",
        Press("Delete"),
        Into(message("Delete {name}?", name="gw-berlin")),
    ),
    state("no-such-gateway", "gateways/of/none", See("There is no such gateway")),
    state("join-refused", "gateways/join", Fill("Name", "GW Rome"), Press("Make the link"), FAULT),
    state("join-waiting", None, Fill("Name", "gw-oslo"), Press("Make the link"), See("Withdraw the link")),
    state(
        "join-placement",
        None,
        Press("Behind a port-forward, beside other services, or without a route"),
        Fill("Public address", "office"),
        FAULT,
    ),
    state("join-open-links", "gateways", See("Links to join")),
    # Site tunnels
    state(
        "site-tunnel-refused",
        "site-tunnels/new",
        Fill("Name", "Berlin Paris"),
        Fill("Owner", "bob"),
        Press("Add it"),
        FAULT,
    ),
    state(
        "site-tunnel-delete",
        "site-tunnels/of/paris-rome",
        Press("Delete"),
        Into(message("Delete {name}?", name="paris-rome")),
    ),
    state("no-such-site-tunnel", "site-tunnels/of/none", ALERT),
    # People
    state("person-add", "people?dialog=add", Into("Add a person")),
    state(
        "person-add-refused",
        None,
        Fill("E-mail address", "zoe@corp"),
        Fill("Login name", "Zoë"),
        Press("Add and invite"),
        FAULT,
    ),
    state(
        "person-added",
        None,
        Fill("E-mail address", "zoe@corp.example"),
        Fill("Login name", MAXIMILIANE),
        Press("Add and invite"),
        Into(message("Invite a computer of {name}", name=MAXIMILIANE)),
        See(message("Add a policy for {name}", name=MAXIMILIANE)),
    ),
    state(
        "person-invite",
        "people/of/alice",
        Press("Invite a computer"),
        Into(message("Invite a computer of {name}", name="alice")),
    ),
    state("person-invited", None, Press("Make a link"), See("Waiting for the computer to enrol")),
    state(
        "person-change",
        "people/of/annegret",
        Press("Change name or address"),
        Into(message("Change {name}", name="annegret")),
    ),
    state("person-change-refused", None, Fill("Display name", "Annegret\u202e"), Press("Save"), FAULT),
    state(
        "person-delete",
        "people/of/alice",
        Press("Delete"),
        Into(message("Delete {name}?", name="alice")),
        See(css="[role=dialog] ul"),
    ),
    state("no-such-person", "people/of/none", ALERT),
    state("invite", "invitations?dialog=invite", Into("Invite a person")),
    state("invite-choice", None, Open("Person"), OPTIONS),
    state(
        "invitation-withdraw",
        "invitations",
        Press(message("Withdraw the invitation of {user}", user="annegret")),
        Into(message("Withdraw the invitation of {user}?", user=ANNEGRET)),
    ),
    # Groups
    state("group-refused", "groups/new", Fill("Name", "The Writers"), Press("Add it"), FAULT),
    state("group-members", "groups/of/writers", Open("Members"), OPTIONS),
    state(
        "group-delete",
        "groups/of/writers",
        Press("Delete"),
        Into(message("Delete {name}?", name="writers")),
        See(css="[role=dialog] ul"),
    ),
    state("no-such-group", "groups/of/none", ALERT),
    # Devices
    state("device-menu", "devices", Press(LAPTOP), MENU),
    state(
        "device-authenticator",
        None,
        Press("Make a new authenticator", "menuitem"),
        Into(message("New authenticator for {name} of {user}", name="laptop", user="alice")),
    ),
    state("device-authenticator-made", None, Press("Replace it"), See("Both are shown only once.")),
    state(
        "device-revoke",
        "devices",
        Press(LAPTOP),
        Press("Revoke", "menuitem"),
        Into(message("Revoke {name} of {user}?", name="laptop", user="alice")),
    ),
    state("devices-states", "devices", Open("State"), OPTIONS),
    state(
        "devices-chosen",
        "devices",
        Press("Choose each shown device that waits", "checkbox"),
        See(css="input:checked"),
    ),
    state(
        "devices-approve-all",
        "devices",
        Press(message("Approve all {count} that wait", count="2")),
        See(css="[role=dialog] ul"),
    ),
    # Policies
    state("policy-refused", "policies/new", Fill("Name", "Nobody"), Press("Add it"), FAULT),
    state("policy-group", "policies/new", Open("Group"), OPTIONS),
    state("policy-person", "policies/new", Click("One person"), Open("Person"), OPTIONS),
    state("policy-hours", "policies/new", Press("Set hours"), Open("Time zone"), OPTIONS),
    state("policy-fact", "policies/new", Press("Ask for a fact"), Open(message("Fact {0}", "1")), OPTIONS),
    state(
        "policy-delete",
        "policies/of/spare",
        Press("Delete"),
        Into(message("Delete {name}?", name="spare")),
        See(css="[role=dialog] ul"),
    ),
    state(
        "policy-breaks",
        "policies/of/alice%20reads",
        Press("Delete"),
        Into(message("Delete {name}?", name="alice reads")),
        ALERT,
    ),
    state("no-such-policy", "policies/of/none", ALERT),
    state("assertion-add", "assertions?dialog=add", Into("Add an assertion")),
    state(
        "assertion-refused",
        None,
        Click("One person"),
        Choose("Person", "alice"),
        Fill("Name", "no name"),
        Press("Add it"),
        FAULT,
    ),
    state(
        "assertion-delete",
        "assertions",
        Press(message("Delete: {said}", said=REACHES)),
        Into("Delete this assertion?"),
    ),
    state("assertion-deleted", None, Press("Delete the assertion"), See("Undo")),
    # DNS
    state("zone-add", "dns?dialog=add", Into("Add a zone")),
    state(
        "zone-refused",
        None,
        Fill("Zone", "lab example"),
        Fill("Short name", "Lab"),
        Fill("Name server", "192.0.2.300"),
        Fill("TSIG key", "k k"),
        Press("Add it"),
        FAULT,
    ),
    state("zone-menu", "dns", Press(ZONE), MENU),
    state(
        "zone-change",
        None,
        Press("Change", "menuitem"),
        Into(message("Change {shown}", shown="corp.example")),
        See("Only these resources"),
    ),
    state(
        "zone-delete",
        "dns",
        Press(ZONE),
        Press("Delete", "menuitem"),
        Into(message("Delete {shown}?", shown="corp.example")),
    ),
    state("dns-states", "dns", Open("State"), OPTIONS, is_narrow=True),
    # Access and activity
    state("access-denied", "access?user=alice&name=git.corp.example", See(css="section[aria-label]")),
    state(
        "access-without-device",
        "access?user=annegret&name=wiki.corp.example",
        See(message("{user} has no device yet", user="annegret")),
    ),
    state("activity-people", "activity", UNFOLD, Fill("Person", "a"), OPTIONS),
    state("activity-acts", "activity", UNFOLD, Open("Act"), OPTIONS),
    state("activity-reasons", "activity", UNFOLD, Open("Reason"), OPTIONS),
    state("activity-none", "activity?q=nothing", See("No matching lines")),
    # A proof of identity
    state(
        "proof",
        "settings?part=tokens&dialog=add",
        Into("Make a token"),
        Age(),
        Fill("Name", "cd"),
        *SCOPES,
        Into("Confirm your identity"),
    ),
    state("proof-refused", None, PROOF, Fill("Code", "000000"), Press("Continue"), ALERT),
    # Faults
    state(
        "connection-lost",
        "gateways",
        See("The connection to the controller is lost"),
        silent="**/api/v1/events?*",
    ),
    state("view-lost", "groups", See("This view could not be shown"), lost="**/assets/GroupListPage-*"),
    state("list-lost", "groups", ALERT, silent="**/api/v1/groups?*"),
    state("controller-lost", "groups", ALERT, silent="**/api/v1/session"),
)

# The page of an invitation, which nobody has to sign in for.
INVITATION = (
    state("invitation", "{open}", See(css="ol")),
    state("invitation-used", "{used}", ALERT),
    state("invitation-expired", "{expired}", ALERT),
    state("invitation-unknown", "{unknown}", ALERT),
    state("invitation-cut", "{cut}", ALERT),
    state("invitation-lost", "{open}", ALERT, silent="**/api/v1/enrolments/**"),
)
