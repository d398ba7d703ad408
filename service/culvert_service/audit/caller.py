"""The actor of a REST request: the credential checks set it, the endpoint passes it to its transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Request

from culvert_service.audit.log import Actor, Claim


def set_actor(request: Request, actor: Actor) -> None:
    """Set the actor after a check of credentials. A later check may set another one."""
    request.state.actor = actor


def set_claim(request: Request, claim: Claim) -> None:
    """Set the claim of the request's Idempotency-Key; each transaction of the request carries it out."""
    request.state.claim = claim


def actor(request: Request) -> Actor:
    """The request's actor, with the claim of its Idempotency-Key."""
    found: Actor = request.state.actor
    return replace(found, claim=getattr(request.state, "claim", None))


# For endpoints that write.
By = Annotated[Actor, Depends(actor)]
