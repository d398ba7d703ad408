"""The page for a denied name: the reason, the next step, and a field for a code where that helps. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from culvert_proto import CulvertError, Reason
from culvert_proto.dns_name import make_readable
from culvert_proto.language import LANGUAGES, SOURCE, Words, speaking
from culvert_proto.owner import mail_to, owner_of
from culvert_proto.shown_text import make_all_plain

CODE_PATH = "/.culvert/code"

_ = Words(Path(__file__).with_name("locale"))

NEEDS_CODE = frozenset(
    {Reason.CODE_NEEDED, Reason.CODE_EXPIRED, Reason.CODE_TOO_OLD, Reason.CERTIFICATE_EXPIRED}
)
DENIALS = NEEDS_CODE | {
    Reason.NO_POLICY, Reason.DEVICE_NOT_APPROVED, Reason.OUTSIDE_HOURS, Reason.SOURCE_NOT_ALLOWED, Reason.POSTURE_NOT_MET,
    Reason.DEVICE_REVOKED,
}  # fmt: skip
"""Decisions about a person, which a page can explain. Faults stay errors of the name service, which programs try again."""

_OFFER = re.compile(
    r"(?P<language>[a-z]{1,8})(-[a-z0-9-]+)?([ \t]*;[ \t]*q=(?P<weight>[01](\.[0-9]{0,3})?))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Denial:
    """`target`: the path that the browser asked for. `token`: of the form; empty: this user may not enter a code.
    `refused`: why the code before was refused."""

    fqdn: str
    error: CulvertError
    target: str
    token: str = ""
    refused: CulvertError | None = None


def choose_language(accepted: str) -> str:
    """The best language of an Accept-Language field (RFC 9110 section 12.5.4) that has a catalogue."""
    offers: list[tuple[float, str]] = []
    for one in accepted[:256].split(","):
        found = _OFFER.fullmatch(one.strip())
        quality = float(found["weight"] or 1) if found else 0.0
        if found and quality and (language := found["language"].lower()) in LANGUAGES:
            offers.append((quality, language))
    return max(offers, key=lambda it: it[0], default=(0.0, SOURCE))[1]


def render(denial: Denial, language: str) -> bytes:
    with speaking(language):
        return _render(denial, language).encode()


def _render(denial: Denial, language: str) -> str:
    error = _say_again(denial.error)
    name = make_readable(denial.fqdn)
    asks = error.reason in NEEDS_CODE and bool(denial.token)
    again = f'<a class="button" href="{escape(denial.target)}">{escape(_("Try again"))}</a>'
    ask = ""
    if owner := owner_of(error):
        link = mail_to(owner, _("Access to {name}").format(name=name))
        told = escape(_("Ask {owner}").format(owner=owner))
        ask = f'<a class="button primary" href="{escape(link)}">{told}</a>'
    remedy = (
        _("Type the six digits that your authenticator shows, or a recovery code.") if asks else error.remedy
    )
    return _PAGE.substitute(
        language=language,
        style=_STYLE,
        title=escape(name),
        name=escape(name),
        message=escape(make_readable(error.message)),
        remedy=escape(make_readable(remedy)),
        form=_form(denial, name) if asks else "",
        buttons="" if asks else f'<p class="buttons">{ask}{again}</p>',
        note=escape(
            _("This page comes from Culvert on this computer. Nothing was sent to {name}.").format(name=name)
        ),
    )


def _say_again(error: CulvertError) -> CulvertError:
    """The error in the page's language, not the daemon's, and without characters that the controller may not show."""
    return CulvertError.from_proto(make_all_plain(error.to_proto()))


def _form(denial: Denial, name: str) -> str:
    refused = _say_again(denial.refused) if denial.refused is not None else None
    wrong = escape(make_readable(f"{refused.message} {refused.remedy}")) if refused is not None else ""
    described = ' aria-invalid="true" aria-describedby="wrong"' if wrong else ""
    alert = f'<p id="wrong" class="wrong" role="alert">{wrong}</p>' if wrong else ""
    return (
        f'<form method="post" action="{CODE_PATH}" autocomplete="off">'
        f'<input type="hidden" name="token" value="{escape(denial.token)}">'
        f'<input type="hidden" name="to" value="{escape(denial.target)}">'
        f'<label for="code">{escape(_("Code"))}</label>{alert}'
        f'<input id="code" name="code" autocomplete="one-time-code" maxlength="24" autofocus required{described}>'
        f'<p class="buttons"><button class="button primary">'
        f"{escape(_('Open {name}').format(name=name))}</button></p></form>"
    )


_STYLE = """
:root{color-scheme:light dark;--ground:#f4f6f5;--surface:#fff;--line:#dbe0dd;--text:#1a1f1c;--note:#5a635e;--accent:#187a45;
--link:#187a45;--bad:#b02525}
@media (prefers-color-scheme:dark){:root{--ground:#15181a;--surface:#1d2124;--line:#343a3e;--text:#edf1ef;--note:#a3aca7;
--link:#72c597;--bad:#ff9c96}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:16px;background:var(--ground);color:var(--text);
font:15px/1.5 Inter,system-ui,sans-serif}
main{width:100%;max-width:480px;background:var(--surface);border:1px solid var(--line);border-radius:10px;padding:24px}
svg{display:block;width:40px;height:40px;margin:0 0 16px -5px}
p{margin:0 0 12px}
.name{color:var(--note);font-size:13px;margin:0 0 4px;overflow-wrap:anywhere}
h1{font-size:20px;line-height:1.3;font-weight:600;margin:0 0 8px;overflow-wrap:anywhere}
.note{color:var(--note);font-size:13px;margin:20px 0 0;padding-top:12px;border-top:1px solid var(--line);
overflow-wrap:anywhere}
label{display:block;font-weight:600;margin:16px 0 4px}
input{width:100%;font:22px/1.3 monospace;letter-spacing:3px;padding:8px 12px;color:inherit;background:var(--ground);
border:1px solid var(--note);border-radius:7px}
input:focus-visible,.button:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.wrong{color:var(--bad);margin:0 0 6px}
.buttons{display:flex;flex-wrap:wrap;gap:8px;margin:16px 0 0}
.button{font:inherit;font-weight:600;line-height:1.3;padding:9px 16px;border-radius:7px;border:1px solid var(--line);
background:var(--surface);color:inherit;text-decoration:none;cursor:pointer;max-width:100%;overflow-wrap:anywhere}
.primary{background:var(--accent);border-color:var(--accent);color:#fff}
"""

_PAGE = Template("""<!doctype html>
<html lang="$language"><head><meta charset="utf-8"><title>$title</title>
<meta name="viewport" content="width=device-width,initial-scale=1"><style>$style</style></head>
<body><main>
<svg viewBox="0 0 48 48" aria-hidden="true"><path fill="#b9523f" d="M24 3 42 9v13c0 11-7 19-18 23C13 41 6 33 6 22V9z"/>
<rect x="14" y="20" width="20" height="7" rx="3.5" fill="#fff"/></svg>
<p class="name"><bdi>$name</bdi></p><h1>$message</h1><p>$remedy</p>
$form$buttons
<p class="note">$note</p>
</main></body></html>
""")

# The one style is permitted by its hash; nothing else is loaded or run.
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'"
)
