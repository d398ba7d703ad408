"""Enrolment: a key made here, a certificate for it, and the TOTP secret passed through to the person."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.invitation_link import Invitation

from culvert_client.controller.handshake import is_out_of_date, out_of_date
from culvert_client.controller.https import TIMEOUT, HttpsConnection, post
from culvert_client.controller.trust import trust, untrusted_error
from culvert_client.state_dir import Identity, key_pem

PATH = "/api/v1/enrolments"
_INVITATION_PATH = f"{PATH}/invitation"

Reach = Callable[[str], str]
"""A host's address on this network (nat64_reach.py)."""


@dataclass(frozen=True, slots=True)
class Enrolment:
    identity: Identity
    totp_uri: str = field(repr=False)
    recovery_codes: tuple[str, ...] = field(repr=False)

    def response(self) -> local_pb2.EnrollResponse:
        """The response, with secrets that the person sees once."""
        return local_pb2.EnrollResponse(
            user=self.identity.user, totp_uri=self.totp_uri, recovery_codes=self.recovery_codes
        )


async def show_invitation(
    invitation: Invitation, reach: Reach = str, *, repeats: bool = False
) -> local_pb2.ShowInvitationResponse:
    """Ask whom the invitation is for, which does not use it up. Raises CulvertError.

    `repeats`: this computer has used it before, perhaps without an answer, and may use it again.
    """
    try:
        answer, _ = await _ask(invitation, reach, _INVITATION_PATH, {})
    except CulvertError as error:
        if error.reason is not Reason.NOT_FOUND:
            raise
        # An older controller.
        return local_pb2.ShowInvitationResponse()
    if answer.get("expired") or (answer.get("used_at") is not None and not repeats):
        raise CulvertError(Reason.INVITATION_INVALID)
    names = (answer.get(name) for name in ("user", "user_display_name"))
    user, display_name = (it if isinstance(it, str) else "" for it in names)
    return local_pb2.ShowInvitationResponse(user=user, user_display_name=display_name)


async def enrol(
    invitation: Invitation,
    key: ec.EllipticCurvePrivateKey,
    *,
    device_name: str,
    owner: int,
    reach: Reach = str,
) -> Enrolment:
    """`key`: the device's key. Raises CulvertError, and then has changed nothing on this computer."""
    body = {"device_name": device_name, "csr_pem": request_pem(key, device_name)}
    answer, ca_der = await _ask(invitation, reach, PATH, body)
    try:
        certificate_pem, ca_pem = answer["certificate_pem"].encode(), answer["ca_pem"].encode()
        certificate, ca = (
            x509.load_pem_x509_certificate(certificate_pem),
            x509.load_pem_x509_certificate(ca_pem),
        )
        texts = {name: str(answer[name]) for name in ("agent_address", "device_id", "user", "totp_uri")}
        recovery_codes = tuple(map(str, answer.get("recovery_codes", ())))
    except (KeyError, ValueError, AttributeError):
        raise CulvertError(Reason.INTERNAL) from None
    if (
        hashlib.sha256(ca.public_bytes(serialization.Encoding.DER)).digest()
        != hashlib.sha256(ca_der).digest()
    ):
        raise untrusted_error(invitation)
    if certificate.public_key() != key.public_key():
        raise CulvertError(Reason.INTERNAL)
    identity = Identity(
        controller=invitation.controller,
        agent_address=texts["agent_address"],
        device_id=texts["device_id"],
        user=texts["user"],
        owner=owner,
        certificate_pem=certificate_pem,
        ca_pem=ca_pem,
        key_pem=key_pem(key),
    )
    return Enrolment(identity, texts["totp_uri"], recovery_codes)


async def _ask(
    invitation: Invitation, reach: Reach, path: str, body: dict[str, str]
) -> tuple[dict[str, Any], bytes]:
    """The controller's answer to the body with the token, and its CA as DER."""
    reached = reach(invitation.host)
    context, ca_der = await trust(invitation, reached)
    connection = HttpsConnection(invitation.host, invitation.port, reached, context, TIMEOUT)
    try:
        body = {"token": invitation.token, **body}
        return await post(invitation.controller, connection, path, body), ca_der
    except ssl.SSLCertVerificationError as error:
        if not is_out_of_date(error):
            raise untrusted_error(invitation) from None
        ours, ca_pem = invitation.controller, ssl.DER_cert_to_PEM_cert(ca_der).encode()
        raise await out_of_date(ours, ours, ca_pem, reach) from None


def request_pem(key: ec.EllipticCurvePrivateKey, name: str) -> str:
    """A PKCS #10 request. The controller uses only its key, not its name."""
    # X.520 allows 64 characters in a common name.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()
