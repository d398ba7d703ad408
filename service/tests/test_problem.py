"""Every reason of the catalogue has a face over HTTP, and the catalogue and the enum of the wire are one."""

from __future__ import annotations

import json

import pytest
from culvert_proto import CATALOGUE, CulvertError, Reason, error_pb2
from culvert_service.rest.problem import MEDIA_TYPE, problem


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
