"""No English text of ours on a German page: the fields that say why, the places that make them, and the answers."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import culvert_service
import pytest
from culvert_db import DnsRecord, DnsState, DnsZone, DnsZoneStatus
from culvert_proto import CulvertError, Reason, stored_text
from culvert_proto.language import LANGUAGES, words
from culvert_proto.phrases import Phrase
from culvert_service.rest.stored_text import marked
from pydantic import BaseModel
from sqlalchemy import select

from .conftest import World, free_port, running, settings_in, until
from .switch import Switch

PARTS = Path(__file__).parents[2]
# The names of fields that say why something is as it is.
SAYING = re.compile(r"why|message|remedy|kept|refused|(.*_)?reason|(.*_)?fault")
# Fields with such a name that are told in the reader's language otherwise, or hold no text of ours.
OTHERWISE = {
    "AuditLineOut.why": "as it was written: the line's hash covers it",
    "NamedLineOut.why": "`names` has its form for the reader",
    "StepOut.message": "made for the reader (policies/tracer.py)",
    "TraceOut.message": "made for the reader (policies/tracer.py)",
    "TraceOut.remedy": "made for the reader (policies/tracer.py)",
    "GatewayLeaveOut.kept": "for culvert-gateway, which speaks English",
    "GatewayReportOut.refused": "for culvert-gateway, which speaks English",
} | dict.fromkeys(
    ("AuditLineOut.reason", "NamedLineOut.reason", "DeniedOut.reason", "StepOut.reason", "TraceOut.reason",
     "ZoneOut.reason", "DnsRecordOut.reason"), "a reason's name, such as NO_POLICY",
)  # fmt: skip


def _answers() -> Iterator[type[BaseModel]]:
    for module in pkgutil.iter_modules(culvert_service.__path__):
        if module.ispkg and (Path(culvert_service.__path__[0]) / module.name / "schemas.py").is_file():
            schemas = importlib.import_module(f"culvert_service.{module.name}.schemas")
            for name, it in vars(schemas).items():
                if isinstance(it, type) and issubclass(it, BaseModel) and name.endswith("Out"):
                    yield it


def test_each_field_that_says_why_is_told_in_the_readers_language() -> None:
    untold: list[str] = []
    for answer in _answers():
        fields = marked(answer)
        assert isinstance(fields, dict)
        for name, field in answer.model_fields.items():
            place, is_text = f"{answer.__name__}.{name}", "str" in str(field.annotation)
            if SAYING.fullmatch(name) and is_text and place not in OTHERWISE and fields.get(name) is not True:
                untold.append(place)
    assert untold == [], "make it a StoredText, or say in OTHERWISE how it is told"


# The calls that make a stored text, with the place of the text among their arguments.
MAKERS = {
    "_LostError": 0,
    "_TakenError": 0,
    "UnreachableError": 1,
    "KeyFileError": 0,
    "_unreachable": 0,
    "occluded_state": 3,
}


@pytest.mark.parametrize("part", ["service/culvert_service/gateways", "dns-updater/culvert_dns_updater"])
def test_each_stored_text_has_a_translation(part: str) -> None:
    """A phrase has one, says tests/test_translations.py. A text that is put together here has none."""
    plain: list[str] = []
    for file in sorted((PARTS / part).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            made = ast.unparse(node.func).rpartition(".")[2]
            texts = [node.args[MAKERS[made]]] if made in MAKERS and len(node.args) > MAKERS[made] else []
            if made == "CulvertError" and file.parent.name == "culvert_dns_updater":
                texts += [it.value for it in node.keywords if it.arg == "why"]
            plain += [
                f"{file.name}:{it.lineno}: {ast.unparse(it)}"
                for it in texts
                if isinstance(it, ast.JoinedStr)
                or (isinstance(it, ast.Constant) and isinstance(it.value, str))
            ]
    assert plain == []


@pytest.mark.slow
async def test_the_catalogues_are_read_at_the_start(tmp_path: Path, database_url: str) -> None:
    stored_text._templates.cache_clear()
    stored_text._localise.cache_clear()
    words._read.pop("de", None)
    async with running(settings_in(tmp_path, database_url=database_url)):
        assert "de" in words._read
        assert stored_text._templates.cache_info().currsize == len(LANGUAGES)


@pytest.mark.slow
async def test_a_german_page_gets_german_texts(world: World) -> None:
    """Also from a stream, whose language the page names: a browser sends the header of its own language with it."""
    await world.add_gateway("gw-berlin", free_port(), 1)
    await world.add_gateway("gw-paris", 9, 2, p4runtime=None)
    await world.add_wiki(["gw-berlin"])
    await world.rest(
        "POST", "/dns/zones", {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    )
    why = Phrase("its name has no address ({why})", why=Phrase("name or service not known"))
    fault = CulvertError(Reason.DNS_UPDATE_UNREACHABLE, server="ns1.corp.example", why=why)
    texts = {"reason": fault.reason.name, "message": fault.message, "remedy": fault.remedy}
    async with world.database.begin() as session:
        zone = (await session.scalars(select(DnsZone.id))).one()
        session.add(DnsZoneStatus(zone_id=zone, state=DnsState.UNREACHABLE, **texts))
        session.add(
            DnsRecord(name="wiki.corp.example", zone="corp", type="A", state=DnsState.UNREACHABLE, **texts)
        )
    device = await world.enrol()
    await device.prove()
    with pytest.raises(CulvertError) as refused:
        await device.open("git.corp.example")
    expected = fault.localise("de")

    async def german(path: str) -> Any:
        answer = await world.admin.get(f"/api/v1{path}", headers={"Accept-Language": "de-AT, en;q=0.5"})
        assert answer.headers["Content-Language"] == "de"
        assert len(answer.content) == int(answer.headers["Content-Length"])
        return answer.json()

    nothing = "an der P4Runtime-Adresse nimmt kein Programm Verbindungen an"
    found = await until(lambda: german("/gateways"), lambda it: it[0]["reason"] == nothing)
    assert found[1]["reason"].startswith("Das Gateway gw-paris ist seit ")
    assert "agent port" not in found[1]["reason"]
    [record] = [it for it in await german("/dns") if it["message"]]
    [shown] = await german("/dns/zones")
    assert (record["message"], record["remedy"]) == (shown["message"], shown["remedy"]) == expected
    [person], [computer] = await german("/users"), await german("/devices")
    denied = refused.value.localise("de")[0]
    assert (person["last_denied"]["why"], computer["last_denied"]["why"]) == (denied, denied)
    log = (await world.admin.get("/api/v1/audit", headers={"Accept-Language": "de"})).json()
    assert any("laptop von alice" in line["names"].values() for line in log)
    # English stays for other readers, and for programs.
    assert (await world.rest("GET", "/dns/zones"))[0]["message"] == fault.message

    dns = ("zone/corp", "record/corp/A/wiki.corp.example")
    for asked, header in (("&language=de", "en"), ("", "de"), ("&language=en", "de")):
        path = f"/api/v1/events?view=gateways&view=dns{asked}"
        told: dict[str, Any] = {}
        async with world.admin.stream("GET", path, headers={"Accept-Language": header}) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    told |= json.loads(line.removeprefix("data: ")).get("rows", {})
                if told.keys() >= {"gw-berlin", *dns}:
                    break
        is_german = "language=en" not in asked
        assert (told["gw-berlin"]["reason"] == nothing) is is_german, (asked, header)
        for key in dns:
            said = told[key]["message"], told[key]["remedy"]
            assert said == (expected if is_german else (fault.message, fault.remedy))


async def test_a_refusal_of_a_value_is_told_in_german(world: World, switch: Switch) -> None:
    """The cause names values of the request, and is German up to these."""
    body: dict[str, object] = {
        "name": "git",
        "fqdn": "git.lab.example",
        "gateways": ["gw-berlin"],
        "address": "10.20.0.10",
        "owner": "bob",
    }
    for method, path, sent, cause in (
        ("POST", "/resources", body, "git.lab.example liegt in keiner der verwalteten Zonen (corp.example)"),
        ("GET", "/devices?cursor=x", None, "der Cursor ist keiner, den diese Liste vergeben hat"),
        ("GET", "/access?user=alice&name=a..b", None, "Name: ein Teil zwischen Punkten ist leer"),
    ):
        answer = await world.admin.request(
            method, f"/api/v1{path}", json=sent, headers={"Accept-Language": "de"}
        )
        assert (answer.status_code, cause in answer.json()["detail"]) == (422, True), answer.json()
