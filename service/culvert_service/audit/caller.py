"""The actor of a REST request, for its transactions: found by the checks of its credentials, given to its endpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Request

from culvert_service.audit.log import Actor, Claim


def set_actor(request: Request, actor: Actor) -> None:
    """After a check of the caller's credentials. A later check may set another actor."""
    request.state.actor = actor


def set_claim(request: Request, claim: Claim) -> None:
    """The request's changes, whoever makes them, carry the claim out."""
    request.state.claim = claim


def actor(request: Request) -> Actor:
    """The request's actor, with the claim of its Idempotency-Key."""
    found: Actor = request.state.actor
    return replace(found, claim=getattr(request.state, "claim", None))


# For endpoints that write.
By = Annotated[Actor, Depends(actor)]
