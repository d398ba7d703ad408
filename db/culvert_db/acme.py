"""Certificates from certification authorities by ACME, shared by the controllers of a database."""

from __future__ import annotations

import datetime

from sqlalchemy.orm import Mapped, mapped_column

from culvert_db.base import Base


class AcmeCertificate(Base):
    """The certificate of `name` from the ACME server `directory`, its account, and the order underway. Keys and the
    challenge's certificate are sealed under the master key.
    """

    __tablename__ = "acme_certificates"

    directory: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    account_key: Mapped[bytes | None]
    account_url: Mapped[str | None]
    # An order that the server has taken, and the key of its certificate.
    order_url: Mapped[str | None]
    order_key: Mapped[bytes | None]
    # PEM of the certificate that the server's validation wants to see, and of its key.
    challenge: Mapped[bytes | None]
    # PEM, and the key's PEM.
    chain: Mapped[bytes | None]
    key: Mapped[bytes | None]
    issued_at: Mapped[datetime.datetime | None]
    renew_at: Mapped[datetime.datetime | None]
    # The next question for the time of the renewal (RFC 9773).
    ask_at: Mapped[datetime.datetime | None]
    # Attempts since the last certificate, the end of the wait after the last one, and the last one's fault.
    failures: Mapped[int] = mapped_column(server_default="0")
    attempt_at: Mapped[datetime.datetime | None]
    fault: Mapped[str] = mapped_column(server_default="")
    # The controller that talks to the server, until `held_until` by the database's clock.
    holder: Mapped[str | None]
    held_until: Mapped[datetime.datetime | None]
