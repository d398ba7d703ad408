"""REST schemas of the sign-in at the provider."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from culvert_proto.phrases import Phrase
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from culvert_service.rest.problem import Problem


class OidcIn(BaseModel):
    """`setup` creates an administrator's account with the `name`, by an invitation's `token`."""

    model_config = ConfigDict(extra="forbid")

    purpose: Literal["sign-in", "setup", "enrol"]
    token: SecretStr | None = None
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")] | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        given = (self.token is not None, self.name is not None)
        if given != (self.purpose == "setup",) * 2:
            raise ValueError(Phrase("setup needs a token and a name, and nothing else does"))
        return self


class OidcOffer(BaseModel):
    # Null: no provider is configured.
    issuer: str | None
    # The problem with which this browser came back from the provider; it is given once.
    refused: Problem | None


class OidcOut(BaseModel):
    # The address to send the browser to.
    url: str
