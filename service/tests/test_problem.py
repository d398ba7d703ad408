"""Every reason of the catalogue has a face over HTTP, and the catalogue and the enum of the wire are one."""

from __future__ import annotations

import json

import pytest
from culvert_proto import CATALOGUE, CulvertError, Reason, error_pb2
from culvert_proto.phrases import Phrase
from culvert_service.rest.faults import explain
from culvert_service.rest.problem import MEDIA_TYPE, asked_language, problem
from starlette.requests import Request


def test_the_catalogue_is_complete() -> None:
    on_the_wire = {name: number for name, number in error_pb2.Reason.items() if number}
    assert {f"REASON_{reason.name}": int(reason) for reason in Reason} == on_the_wire
    assert set(CATALOGUE) == set(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_a_problem(reason: Reason) -> None:
    fields: dict[str, object] = dict.fromkeys(CATALOGUE[reason].fields(), "x")
    answer = problem(CulvertError(reason, **fields))
    body = json.loads(bytes(answer.body))
    assert answer.media_type == MEDIA_TYPE
    assert answer.status_code == body["status"] == CATALOGUE[reason].http
    assert answer.status_code >= 400
    assert body["reason"] == reason.name
    assert body["detail"]
    assert body["remedy"]
    assert body["fields"] == fields


@pytest.mark.parametrize(
    ("accepted", "detail", "language"),
    [
        ("de-AT,de;q=0.9,en;q=0.5", "Nicht vorhanden: Person alice.", "de"),
        ("fr, en;q=0.2, de;q=0.8", "Nicht vorhanden: Person alice.", "de"),
        ("en,de", "The user alice does not exist.", "en"),
        ("de;q=0, nonsense;;;", "The user alice does not exist.", "en"),
        ("", "The user alice does not exist.", "en"),
    ],
)
def test_a_refusal_is_in_the_language_of_the_request(accepted: str, detail: str, language: str) -> None:
    error = CulvertError(Reason.NOT_FOUND, what=Phrase("The user {name}", name="alice"))
    asked = Request({"type": "http", "headers": [(b"accept-language", accepted.encode())]})
    answer = problem(error, language=asked_language(asked))
    assert json.loads(bytes(answer.body))["detail"] == detail
    assert answer.headers["content-language"] == language


def test_faults_of_fields_are_translated() -> None:
    errors = [
        {"type": "string_type", "loc": ("body", "mac", "str"), "msg": ""},
        {"type": "list_type", "loc": ("body", "mac", "list[str]"), "msg": ""},
    ]
    (fault,) = explain(errors, {"mac": 7})
    assert fault.why == "must be a text or list"
    assert isinstance(fault.why, Phrase)
    assert fault.why.localise("de") == "muss ein Text sein, oder muss eine Liste sein"
