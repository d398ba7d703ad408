"""The error catalogue: for each reason what happened, what to do next, and how gRPC and HTTP say it.

The same words reach the tray, the CLI, the REST API and the log; tray and CLI say them in the person's language
(`language.py`). A message may name the case ("alice", "git.corp.example")
through `str.format` fields; a field that the raiser did not give is an error in the raiser, caught by the catalogue's test.
"""

from __future__ import annotations

import enum
import string
from dataclasses import dataclass
from http import HTTPStatus

import grpc

from culvert_proto.gen.culvert.error.v1 import error_pb2
from culvert_proto.language import translates, words
from culvert_proto.phrases import duration, localise_fields, phrases, receive_fields


class Reason(enum.IntEnum):
    """Mirror of `culvert.error.v1.Reason`; the catalogue's test keeps the two equal."""

    NOT_ENROLLED = error_pb2.REASON_NOT_ENROLLED
    CERTIFICATE_UNKNOWN = error_pb2.REASON_CERTIFICATE_UNKNOWN
    DEVICE_REVOKED = error_pb2.REASON_DEVICE_REVOKED
    INVITATION_INVALID = error_pb2.REASON_INVITATION_INVALID
    INVITATION_UNREADABLE = error_pb2.REASON_INVITATION_UNREADABLE
    CSR_INVALID = error_pb2.REASON_CSR_INVALID
    CODE_NEEDED = error_pb2.REASON_CODE_NEEDED
    CODE_EXPIRED = error_pb2.REASON_CODE_EXPIRED
    CODE_WRONG = error_pb2.REASON_CODE_WRONG
    CODE_USED = error_pb2.REASON_CODE_USED
    CODE_LOCKED = error_pb2.REASON_CODE_LOCKED
    LOCAL_PERMISSION = error_pb2.REASON_LOCAL_PERMISSION
    ADMIN_TOKEN_INVALID = error_pb2.REASON_ADMIN_TOKEN_INVALID
    SIGN_IN_WRONG = error_pb2.REASON_SIGN_IN_WRONG
    PROOF_WRONG = error_pb2.REASON_PROOF_WRONG
    SIGN_IN_LOCKED = error_pb2.REASON_SIGN_IN_LOCKED
    SESSION_INVALID = error_pb2.REASON_SESSION_INVALID
    CSRF_INVALID = error_pb2.REASON_CSRF_INVALID
    NOT_PERMITTED = error_pb2.REASON_NOT_PERMITTED
    PASSKEY_REFUSED = error_pb2.REASON_PASSKEY_REFUSED
    OIDC_REFUSED = error_pb2.REASON_OIDC_REFUSED
    OIDC_UNKNOWN = error_pb2.REASON_OIDC_UNKNOWN
    NO_POLICY = error_pb2.REASON_NO_POLICY
    NAME_UNKNOWN = error_pb2.REASON_NAME_UNKNOWN
    NAME_NOT_OFFERED = error_pb2.REASON_NAME_NOT_OFFERED
    TUNNEL_UNKNOWN = error_pb2.REASON_TUNNEL_UNKNOWN
    GENERATION_STALE = error_pb2.REASON_GENERATION_STALE
    REQUEST_INVALID = error_pb2.REASON_REQUEST_INVALID
    ALREADY_EXISTS = error_pb2.REASON_ALREADY_EXISTS
    NOT_FOUND = error_pb2.REASON_NOT_FOUND
    SUITE_LEGACY = error_pb2.REASON_SUITE_LEGACY
    DEVICE_NOT_APPROVED = error_pb2.REASON_DEVICE_NOT_APPROVED
    CODE_TOO_OLD = error_pb2.REASON_CODE_TOO_OLD
    OUTSIDE_HOURS = error_pb2.REASON_OUTSIDE_HOURS
    SOURCE_NOT_ALLOWED = error_pb2.REASON_SOURCE_NOT_ALLOWED
    LAST_OWNER = error_pb2.REASON_LAST_OWNER
    RATE_LIMITED = error_pb2.REASON_RATE_LIMITED
    IDEMPOTENCY_KEY_REUSED = error_pb2.REASON_IDEMPOTENCY_KEY_REUSED
    IDEMPOTENCY_KEY_BUSY = error_pb2.REASON_IDEMPOTENCY_KEY_BUSY
    VERSION_NEEDED = error_pb2.REASON_VERSION_NEEDED
    VERSION_STALE = error_pb2.REASON_VERSION_STALE
    OIDC_STALE = error_pb2.REASON_OIDC_STALE
    IDEMPOTENCY_ANSWER_LOST = error_pb2.REASON_IDEMPOTENCY_ANSWER_LOST
    GATEWAY_DOWN = error_pb2.REASON_GATEWAY_DOWN
    GATEWAY_REFUSED = error_pb2.REASON_GATEWAY_REFUSED
    POOL_EXHAUSTED = error_pb2.REASON_POOL_EXHAUSTED
    CONTROLLER_UNREACHABLE = error_pb2.REASON_CONTROLLER_UNREACHABLE
    DATAPATH_FAILED = error_pb2.REASON_DATAPATH_FAILED
    DNS_UPSTREAM_FAILED = error_pb2.REASON_DNS_UPSTREAM_FAILED
    DNS_UPDATE_REFUSED = error_pb2.REASON_DNS_UPDATE_REFUSED
    DNS_UPDATE_UNREACHABLE = error_pb2.REASON_DNS_UPDATE_UNREACHABLE
    DNS_RECORD_FOREIGN = error_pb2.REASON_DNS_RECORD_FOREIGN
    DNS_NAME_OCCLUDED = error_pb2.REASON_DNS_NAME_OCCLUDED
    DNS_NAME_NOT_SERVED = error_pb2.REASON_DNS_NAME_NOT_SERVED
    DNS_NAME_REFUSED = error_pb2.REASON_DNS_NAME_REFUSED
    DNS_KEY_LIMITED = error_pb2.REASON_DNS_KEY_LIMITED
    DNS_UPDATE_IGNORED = error_pb2.REASON_DNS_UPDATE_IGNORED
    DNS_UPDATE_FAILED = error_pb2.REASON_DNS_UPDATE_FAILED
    DNS_TRANSFER_REFUSED = error_pb2.REASON_DNS_TRANSFER_REFUSED
    DNS_CLOCK_WRONG = error_pb2.REASON_DNS_CLOCK_WRONG
    DNS_ZONE_MISSING = error_pb2.REASON_DNS_ZONE_MISSING
    TIMEOUT = error_pb2.REASON_TIMEOUT
    INTERNAL = error_pb2.REASON_INTERNAL
    CONTROLLER_UNTRUSTED = error_pb2.REASON_CONTROLLER_UNTRUSTED
    DNS_KEY_UNUSABLE = error_pb2.REASON_DNS_KEY_UNUSABLE
    DATABASE_DOWN = error_pb2.REASON_DATABASE_DOWN
    DATABASE_BUSY = error_pb2.REASON_DATABASE_BUSY
    GATEWAY_IN_USE = error_pb2.REASON_GATEWAY_IN_USE
    CRYPTO_HOST_IN_USE = error_pb2.REASON_CRYPTO_HOST_IN_USE
    GATEWAY_ELSEWHERE = error_pb2.REASON_GATEWAY_ELSEWHERE
    GATEWAY_DRAINING = error_pb2.REASON_GATEWAY_DRAINING
    GATEWAY_NEEDED = error_pb2.REASON_GATEWAY_NEEDED
    GATEWAY_NAME_RESERVED = error_pb2.REASON_GATEWAY_NAME_RESERVED
    GATEWAY_KEY_UNKNOWN = error_pb2.REASON_GATEWAY_KEY_UNKNOWN
    JOIN_LINK_UNKNOWN = error_pb2.REASON_JOIN_LINK_UNKNOWN
    JOIN_LINK_USED = error_pb2.REASON_JOIN_LINK_USED
    JOIN_LINK_EXPIRED = error_pb2.REASON_JOIN_LINK_EXPIRED
    POOL_OVERLAPS = error_pb2.REASON_POOL_OVERLAPS
    GATEWAY_NOT_JOINED = error_pb2.REASON_GATEWAY_NOT_JOINED
    HISTORY_NOT_KEPT = error_pb2.REASON_HISTORY_NOT_KEPT
    ASSERTION_BROKEN = error_pb2.REASON_ASSERTION_BROKEN
    GATEWAY_NOT_CONNECTED = error_pb2.REASON_GATEWAY_NOT_CONNECTED
    PAUSED = error_pb2.REASON_PAUSED
    CONTROLLER_INVALID = error_pb2.REASON_CONTROLLER_INVALID
    ADDRESS_COLLISION = error_pb2.REASON_ADDRESS_COLLISION
    DNS_REBINDING = error_pb2.REASON_DNS_REBINDING
    CAPTIVE_PORTAL = error_pb2.REASON_CAPTIVE_PORTAL
    RESOURCE_IN_USE = error_pb2.REASON_RESOURCE_IN_USE
    ORGANISATIONS_COLLIDE = error_pb2.REASON_ORGANISATIONS_COLLIDE
    ORGANISATION_UNCLEAR = error_pb2.REASON_ORGANISATION_UNCLEAR
    CONSENT_NEEDED = error_pb2.REASON_CONSENT_NEEDED
    CLOSED_BY_USER = error_pb2.REASON_CLOSED_BY_USER
    CLOSED_IDLE = error_pb2.REASON_CLOSED_IDLE
    DAEMON_STOPPED = error_pb2.REASON_DAEMON_STOPPED
    CLOSED_BY_ADMIN = error_pb2.REASON_CLOSED_BY_ADMIN
    SA_LOST = error_pb2.REASON_SA_LOST
    PEER_SILENT = error_pb2.REASON_PEER_SILENT
    TUNNEL_OUTDATED = error_pb2.REASON_TUNNEL_OUTDATED
    REQUEST_MALFORMED = error_pb2.REASON_REQUEST_MALFORMED
    POSTURE_NOT_MET = error_pb2.REASON_POSTURE_NOT_MET
    METHOD_NOT_ALLOWED = error_pb2.REASON_METHOD_NOT_ALLOWED
    BODY_TOO_LARGE = error_pb2.REASON_BODY_TOO_LARGE
    BODY_LATE = error_pb2.REASON_BODY_LATE
    MEDIA_TYPE_UNSUPPORTED = error_pb2.REASON_MEDIA_TYPE_UNSUPPORTED
    GATEWAY_REPLACED = error_pb2.REASON_GATEWAY_REPLACED
    PROOF_NEEDED = error_pb2.REASON_PROOF_NEEDED
    SIGN_IN_SLOWED = error_pb2.REASON_SIGN_IN_SLOWED
    LAST_SIGN_IN = error_pb2.REASON_LAST_SIGN_IN
    EXPORTS_UNDER_WAY = error_pb2.REASON_EXPORTS_UNDER_WAY
    CERTIFICATE_EXPIRED = error_pb2.REASON_CERTIFICATE_EXPIRED
    CERTIFICATE_REFUSED = error_pb2.REASON_CERTIFICATE_REFUSED
    RENEWAL_TOO_LATE = error_pb2.REASON_RENEWAL_TOO_LATE
    CLOCK_WRONG = error_pb2.REASON_CLOCK_WRONG
    CONTROLLER_CA_UNKNOWN = error_pb2.REASON_CONTROLLER_CA_UNKNOWN
    CONTROLLER_NAME_WRONG = error_pb2.REASON_CONTROLLER_NAME_WRONG
    CONTROLLER_CERTIFICATE_EXPIRED = error_pb2.REASON_CONTROLLER_CERTIFICATE_EXPIRED
    HANDSHAKE_REFUSED = error_pb2.REASON_HANDSHAKE_REFUSED
    GATEWAY_SILENT = error_pb2.REASON_GATEWAY_SILENT
    TUNNEL_BLOCKED = error_pb2.REASON_TUNNEL_BLOCKED
    PATH_NARROW = error_pb2.REASON_PATH_NARROW
    STATE_UNREADABLE = error_pb2.REASON_STATE_UNREADABLE
    LOCAL_NETWORK_OPEN = error_pb2.REASON_LOCAL_NETWORK_OPEN
    LOCAL_NETWORK_BLOCKED = error_pb2.REASON_LOCAL_NETWORK_BLOCKED
    LOCAL_NETWORK_UNPROTECTED = error_pb2.REASON_LOCAL_NETWORK_UNPROTECTED
    DNS_SETTINGS_CONTESTED = error_pb2.REASON_DNS_SETTINGS_CONTESTED
    DNS_SETTINGS_FAILED = error_pb2.REASON_DNS_SETTINGS_FAILED
    UDP_PORT_TAKEN = error_pb2.REASON_UDP_PORT_TAKEN
    TUN_NAME_TAKEN = error_pb2.REASON_TUN_NAME_TAKEN
    TUN_MISSING = error_pb2.REASON_TUN_MISSING
    TUN_FORBIDDEN = error_pb2.REASON_TUN_FORBIDDEN
    TUN_LOST = error_pb2.REASON_TUN_LOST
    STATE_UNWRITABLE = error_pb2.REASON_STATE_UNWRITABLE
    STATE_FORGOTTEN = error_pb2.REASON_STATE_FORGOTTEN
    DNS_PORT_UNUSABLE = error_pb2.REASON_DNS_PORT_UNUSABLE
    DNS_WATCH_FAILED = error_pb2.REASON_DNS_WATCH_FAILED
    DNS_SERVERS_FORGOTTEN = error_pb2.REASON_DNS_SERVERS_FORGOTTEN
    OIDC_NAME_UNKNOWN = error_pb2.REASON_OIDC_NAME_UNKNOWN
    OIDC_CONNECTION_FAILED = error_pb2.REASON_OIDC_CONNECTION_FAILED
    OIDC_TIMEOUT = error_pb2.REASON_OIDC_TIMEOUT
    OIDC_PROXY_FAILED = error_pb2.REASON_OIDC_PROXY_FAILED
    OIDC_TLS_FAILED = error_pb2.REASON_OIDC_TLS_FAILED
    OIDC_CERTIFICATE_UNTRUSTED = error_pb2.REASON_OIDC_CERTIFICATE_UNTRUSTED
    OIDC_ISSUER_DIFFERS = error_pb2.REASON_OIDC_ISSUER_DIFFERS
    OIDC_CLIENT_REFUSED = error_pb2.REASON_OIDC_CLIENT_REFUSED
    OIDC_EMAIL_UNVERIFIED = error_pb2.REASON_OIDC_EMAIL_UNVERIFIED
    OIDC_EMAIL_SHARED = error_pb2.REASON_OIDC_EMAIL_SHARED


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the catalogue. `message`, `remedy` and `shell` are `str.format` templates.

    `shell` is the remedy's command in words, which a terminal alone shows; empty without one.
    """

    message: str
    remedy: str
    grpc: grpc.StatusCode
    http: HTTPStatus
    shell: str = ""

    def fields(self) -> set[str]:
        """Names that the templates need."""
        parsed = map(string.Formatter().parse, (self.message, self.remedy, self.shell))
        return {name for parts in parsed for _, name, _, _ in parts if name}


_G = grpc.StatusCode
_H = HTTPStatus

CATALOGUE: dict[Reason, Entry] = {
    Reason.NOT_ENROLLED: Entry(
        "This computer is not enrolled.",
        "Open the invitation link that your administrator sent.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Or run: culvert enroll",
    ),
    Reason.CERTIFICATE_UNKNOWN: Entry(
        "The controller does not know this computer's certificate.",
        "Ask your administrator for a new invitation and enrol again.",
        _G.UNAUTHENTICATED,
        _H.UNAUTHORIZED,
    ),
    Reason.DEVICE_REVOKED: Entry(
        "The device {device} has been revoked.",
        "Ask your administrator for the reason. A new invitation lets the device in again.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.INVITATION_INVALID: Entry(
        "The invitation is not valid: it was used or withdrawn, has expired, or was mistyped.",
        "Ask your administrator for a new invitation.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.INVITATION_UNREADABLE: Entry(
        "The invitation link cannot be read: {why}.",
        "Copy the whole link from the invitation again. In a terminal, put it in quotation marks.",
        _G.INVALID_ARGUMENT,
        _H.UNPROCESSABLE_ENTITY,
    ),
    Reason.CSR_INVALID: Entry(
        "The certificate request is not acceptable: {why}.",
        "Update Culvert on this computer and enrol again.",
        _G.INVALID_ARGUMENT,
        _H.UNPROCESSABLE_ENTITY,
    ),
    Reason.CODE_NEEDED: Entry(
        "A code is needed before tunnels can be opened.",
        "Type the six digits that your authenticator shows.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Run: culvert code",
    ),
    Reason.CODE_EXPIRED: Entry(
        "The last code has ended, and a new one is needed before tunnels can be opened.",
        "Type the six digits that your authenticator shows.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Run: culvert code",
    ),
    Reason.CODE_WRONG: Entry(
        "The code is wrong.",
        "Check that your authenticator's clock is right, wait for the next code and type that.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.CODE_USED: Entry(
        "The code has been used already.",
        "Each code works once: wait for the next one, at most 30 seconds.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.CODE_LOCKED: Entry(
        "Too many wrong codes.",
        "Wait {seconds} and try again.",
        _G.RESOURCE_EXHAUSTED,
        _H.TOO_MANY_REQUESTS,
    ),
    Reason.LOCAL_PERMISSION: Entry(
        "This user may not do that: {what}.",
        "Sign in as the user who enrolled this computer, or ask root.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.ADMIN_TOKEN_INVALID: Entry(
        "The API token is missing or not valid.",
        "Send the header: Authorization: Bearer TOKEN",
        _G.UNAUTHENTICATED,
        _H.UNAUTHORIZED,
    ),
    Reason.SIGN_IN_WRONG: Entry(
        "Wrong name, password or code, or the code was already used.",
        "Check the name and the password, wait for the next code and try again.",
        _G.UNAUTHENTICATED,
        _H.UNAUTHORIZED,
    ),
    Reason.PROOF_WRONG: Entry(
        "Wrong password or code, or the code was already used.",
        "Check the password, wait for the next code and try again.",
        _G.UNAUTHENTICATED,
        _H.UNAUTHORIZED,
    ),
    Reason.SIGN_IN_LOCKED: Entry(
        "Too many wrong sign-ins with this name from this address.",
        "Wait {seconds} and try again.",
        _G.RESOURCE_EXHAUSTED,
        _H.TOO_MANY_REQUESTS,
    ),
    Reason.SESSION_INVALID: Entry(
        "The session has ended.", "Sign in again.", _G.UNAUTHENTICATED, _H.UNAUTHORIZED
    ),
    Reason.CSRF_INVALID: Entry(
        "The request does not come from a page that this session has opened.",
        "Reload the page. A program sends the session's csrf_token in the header X-CSRF-Token.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.NOT_PERMITTED: Entry(
        "{who} may not {verb} {what}: that needs {needed}.",
        "Ask an owner to do it, or to grant the right.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.PROOF_NEEDED: Entry(
        "This needs a proof of identity by {who} that is at most {minutes} minutes old.",
        "Give password and code once more, or use a passkey of the account, and repeat the call.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.SIGN_IN_SLOWED: Entry(
        "Too many wrong codes were given for {who} after the right password.",
        "Wait {seconds}, or use a recovery code or a passkey. If it was not you, change the password.",
        _G.RESOURCE_EXHAUSTED,
        _H.TOO_MANY_REQUESTS,
    ),
    Reason.LAST_SIGN_IN: Entry(
        "After this, {who} could not sign in any more.",
        "Add a passkey first, then repeat this.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.PASSKEY_REFUSED: Entry(
        "The passkey is not known here, or its answer came too late or twice.",
        "Try again; or sign in with password and code, and add the passkey to the account.",
        _G.UNAUTHENTICATED,
        _H.UNAUTHORIZED,
    ),
    Reason.OIDC_REFUSED: Entry(
        "The sign-in at {issuer} did not succeed: {why}.",
        "Try again; if it lasts, tell your administrator.",
        _G.UNAUTHENTICATED,
        _H.UNAUTHORIZED,
    ),
    Reason.OIDC_UNKNOWN: Entry(
        "No account here belongs to this sign-in at {issuer}, nor to its verified e-mail address.",
        "Ask your administrator to invite you.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.OIDC_NAME_UNKNOWN: Entry(
        "The controller finds no address for {host}, which it needs for sign-ins at {issuer}.",
        "Try again. If it lasts, tell your administrator: the name is misspelt, or the name servers do not know it.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.OIDC_CONNECTION_FAILED: Entry(
        "The controller cannot connect to {host}, which it needs for sign-ins at {issuer}.",
        "Try again. If it lasts, tell your administrator: {host} does not run, or a firewall refuses the connection.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.OIDC_TIMEOUT: Entry(
        "{host}, which the controller needs for sign-ins at {issuer}, has not answered in time.",
        "Try again. If it lasts, tell your administrator: {host} is overloaded, or a firewall drops packets.",
        _G.UNAVAILABLE,
        _H.GATEWAY_TIMEOUT,
    ),
    Reason.OIDC_PROXY_FAILED: Entry(
        "The proxy {proxy} does not connect the controller to {host}, which it needs for sign-ins at {issuer}.",
        "Tell your administrator: HTTPS_PROXY and NO_PROXY in the controller's environment say where a proxy is used.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.OIDC_TLS_FAILED: Entry(
        "The controller and {host} could not agree on TLS, which sign-ins at {issuer} need.",
        "Tell your administrator: the address must begin with https, and the server needs TLS 1.2 or later.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.OIDC_CERTIFICATE_UNTRUSTED: Entry(
        "The controller does not trust the certificate of {host}, which it needs for sign-ins at {issuer}: {why}.",
        "Tell your administrator. The certificates of a private authority are named by oidc_ca_file in the settings.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.OIDC_ISSUER_DIFFERS: Entry(
        "The provider at {issuer} calls itself {found}.",
        "Tell your administrator: oidc_issuer in the settings has to be the same, up to the last slash.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.OIDC_CLIENT_REFUSED: Entry(
        "{issuer} does not accept the client ID and the secret of this controller.",
        "Tell your administrator. The secret may have expired at the provider; oidc_client_secret_file holds it.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.OIDC_EMAIL_UNVERIFIED: Entry(
        "{issuer} does not confirm that an e-mail address is yours.",
        "Ask your administrator for an invitation. The setting oidc_email_verified_by says when an address is confirmed.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.OIDC_EMAIL_SHARED: Entry(
        "More than one person here has the e-mail address {email}.",
        "Ask your administrator for an invitation, and for an address of your own.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.NO_POLICY: Entry(
        "No policy lets {user} reach {name}.", "Ask {owner}, who owns it.", _G.PERMISSION_DENIED, _H.FORBIDDEN
    ),
    Reason.NAME_UNKNOWN: Entry(
        "No resource has the name {name}.",
        "Check the spelling; your administrator can add it.",
        _G.NOT_FOUND,
        _H.NOT_FOUND,
    ),
    Reason.NAME_NOT_OFFERED: Entry(
        "No resource that you may open has the name {name}.",
        "Check the spelling. If it is right, ask your administrator for access.",
        _G.NOT_FOUND,
        _H.NOT_FOUND,
    ),
    Reason.TUNNEL_UNKNOWN: Entry(
        "This device has no such tunnel.",
        "The tunnel has been closed: open the name again.",
        _G.NOT_FOUND,
        _H.NOT_FOUND,
    ),
    Reason.GENERATION_STALE: Entry(
        "The tunnel's keys are at generation {current}, not at {asked}.",
        "Nothing to do: Culvert takes the newer keys by itself.",
        _G.ABORTED,
        _H.CONFLICT,
    ),
    Reason.REQUEST_INVALID: Entry(
        "The request is not valid: {why}.",
        "Correct the request and send it again.",
        _G.INVALID_ARGUMENT,
        _H.UNPROCESSABLE_ENTITY,
    ),
    Reason.METHOD_NOT_ALLOWED: Entry(
        "This path does not take the method {method}.",
        "Use one of {allowed}; the API reference lists the methods of each path.",
        _G.UNIMPLEMENTED,
        _H.METHOD_NOT_ALLOWED,
    ),
    Reason.BODY_TOO_LARGE: Entry(
        "The request's body has more than {limit} bytes.",
        "Send less at once.",
        _G.RESOURCE_EXHAUSTED,
        _H.REQUEST_ENTITY_TOO_LARGE,
    ),
    Reason.BODY_LATE: Entry(
        "The request's body did not arrive within {seconds}.",
        "Check the connection and send the request again.",
        _G.DEADLINE_EXCEEDED,
        _H.REQUEST_TIMEOUT,
    ),
    Reason.MEDIA_TYPE_UNSUPPORTED: Entry(
        "The request's body is {found}; this path reads application/json alone.",
        "Send JSON with Content-Type: application/json and without Content-Encoding.",
        _G.INVALID_ARGUMENT,
        _H.UNSUPPORTED_MEDIA_TYPE,
    ),
    Reason.REQUEST_MALFORMED: Entry(
        "This is not a request of HTTP/1.1, or its head has more than {limit} bytes.",
        "Send a path and a Host header, as any HTTP library does, and fewer or shorter headers.",
        _G.INVALID_ARGUMENT,
        _H.BAD_REQUEST,
    ),
    Reason.ALREADY_EXISTS: Entry(
        "{what} exists already.",
        "Choose another name, or change the one that exists.",
        _G.ALREADY_EXISTS,
        _H.CONFLICT,
    ),
    Reason.NOT_FOUND: Entry(
        "{what} does not exist.", "Check the name; it may have been deleted.", _G.NOT_FOUND, _H.NOT_FOUND
    ),
    Reason.SUITE_LEGACY: Entry(
        "The suite {suite} is legacy, and {where} does not allow it.",
        "Use aes-gcm-256; or, accepting that it is weaker, add {suite} to the legacy_suites of {where}.",
        _G.FAILED_PRECONDITION,
        _H.UNPROCESSABLE_ENTITY,
    ),
    Reason.DEVICE_NOT_APPROVED: Entry(
        "{name} needs an approved device, and {device} has not been approved yet.",
        "Ask your administrator to approve it.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.CODE_TOO_OLD: Entry(
        "{name} needs a code that is at most {age} old; the last one is older.",
        "Type the six digits that your authenticator shows.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Run: culvert code",
    ),
    Reason.OUTSIDE_HOURS: Entry(
        "{name} is not open at this hour. It opens {opens}.",
        "Come back then, or ask {owner}, who owns it.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.SOURCE_NOT_ALLOWED: Entry(
        "{name} may not be opened from the address {address}.",
        "Connect from an allowed network, or ask {owner}, who owns it.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.POSTURE_NOT_MET: Entry(
        "{name} asks for a computer with {asked}; {device} reports {found}.",
        "Change this on the computer, which reports again within a minute, or ask {owner}, who owns {name}.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.LAST_OWNER: Entry(
        "{name} is the last owner.",
        "Invite another owner first, and let them sign in.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.RATE_LIMITED: Entry(
        "Too many requests.",
        "Wait {seconds} and try again.",
        _G.RESOURCE_EXHAUSTED,
        _H.TOO_MANY_REQUESTS,
    ),
    Reason.EXPORTS_UNDER_WAY: Entry(
        "{most} exports of the audit log are under way already.",
        "Wait {seconds} and try again.",
        _G.RESOURCE_EXHAUSTED,
        _H.TOO_MANY_REQUESTS,
    ),
    Reason.IDEMPOTENCY_KEY_REUSED: Entry(
        "The idempotency key belongs to another request.",
        "Use a new key for each request, and the same key for its repetitions alone.",
        _G.INVALID_ARGUMENT,
        _H.UNPROCESSABLE_ENTITY,
    ),
    Reason.IDEMPOTENCY_KEY_BUSY: Entry(
        "The first request with this idempotency key is still under way.",
        "Repeat the request in a moment, with the same key.",
        _G.ABORTED,
        _H.CONFLICT,
    ),
    Reason.VERSION_NEEDED: Entry(
        "Changing {what} needs an If-Match header with its current ETag.",
        "Read the current state, and send its ETag in the header If-Match.",
        _G.FAILED_PRECONDITION,
        _H.PRECONDITION_REQUIRED,
    ),
    Reason.VERSION_STALE: Entry(
        "{what} was changed meanwhile: its version is {current}, and the request is for {sent}.",
        "Read the current state, and repeat the change if it is still right.",
        _G.ABORTED,
        _H.PRECONDITION_FAILED,
    ),
    Reason.OIDC_STALE: Entry(
        "The sign-in was begun in another browser, or more than ten minutes ago.",
        "Begin the sign-in again.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.IDEMPOTENCY_ANSWER_LOST: Entry(
        "The request was carried out, but the controller stopped before it answered.",
        "Check the result. If the answer held a secret, make a new one, with another idempotency key.",
        _G.DATA_LOSS,
        _H.CONFLICT,
    ),
    Reason.GATEWAY_DOWN: Entry(
        "The gateway {gateway} cannot be reached.",
        "Try again in a moment; if it lasts, tell your administrator.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.GATEWAY_NOT_CONNECTED: Entry(
        "The gateway {gateway} has not been connected to a controller since {since}.",
        "Check that it runs, that it reaches the controllers' agent port over TCP, and that it has its newest certificate.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.GATEWAY_REFUSED: Entry(
        "The gateway {gateway} refused the tunnel: {why}.",
        "The gateway was not changed. Try again; if it lasts, tell your administrator.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.POOL_EXHAUSTED: Entry(
        "The gateway {gateway} has no free address left.",
        "Your administrator can enlarge its address pool.",
        _G.RESOURCE_EXHAUSTED,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.CONTROLLER_UNREACHABLE: Entry(
        "The controller {controller} cannot be reached.",
        "Check the network connection. Tunnels that are up stay up.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.CAPTIVE_PORTAL: Entry(
        "This network wants you to sign in on a page of its own before it lets you reach {controller}.",
        "Open any web page in a browser and sign in there. Culvert connects by itself after that.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.CERTIFICATE_EXPIRED: Entry(
        "This computer's certificate has expired.",
        "To renew it, type the six digits that your authenticator shows.",
        _G.UNAUTHENTICATED,
        _H.UNAUTHORIZED,
        "Run: culvert code",
    ),
    Reason.RENEWAL_TOO_LATE: Entry(
        "This computer's certificate expired too long ago. The controller's limit for a late renewal, in days: {days}.",
        "Ask your administrator for a new invitation and enrol again.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.CERTIFICATE_REFUSED: Entry(
        "The controller {controller} refuses this computer's certificate: {why}.",
        "Ask your administrator for a new invitation and enrol again. Tunnels that are up stay up.",
        _G.UNAUTHENTICATED,
        _H.UNAUTHORIZED,
    ),
    Reason.CLOCK_WRONG: Entry(
        "This computer's clock differs from the controller's by {apart}, so a certificate seems invalid.",
        "Set the clock. Culvert connects by itself after that.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Run: timedatectl set-ntp true",
    ),
    Reason.CONTROLLER_CA_UNKNOWN: Entry(
        "The certificate of {controller} was not issued by this computer's certificate authority.",
        "Try another network: somebody may be in between. If it lasts, ask your administrator for a new invitation.",
        _G.UNAUTHENTICATED,
        _H.BAD_GATEWAY,
    ),
    Reason.CONTROLLER_NAME_WRONG: Entry(
        "The controller's certificate is for another name than {controller}.",
        "Tell your administrator: the controller's settings must name the address that devices use.",
        _G.UNAUTHENTICATED,
        _H.BAD_GATEWAY,
    ),
    Reason.CONTROLLER_CERTIFICATE_EXPIRED: Entry(
        "The certificate that {controller} shows has expired or is not valid yet.",
        "Tell your administrator: the controller needs a new certificate. Tunnels that are up stay up.",
        _G.UNAUTHENTICATED,
        _H.BAD_GATEWAY,
    ),
    Reason.HANDSHAKE_REFUSED: Entry(
        "{controller} can be reached, but no TLS connection can be made with it: {why}.",
        "Try another network: a firewall may be in between. If it lasts, tell your administrator.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.GATEWAY_SILENT: Entry(
        "The gateway {gateway} does not answer: nothing comes back through the tunnel for {name}.",
        "Culvert keeps trying until the gateway answers. Check the network, or choose another gateway.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.TUNNEL_BLOCKED: Entry(
        "The gateway {gateway} does not answer through the tunnel for {name}. It answers pings, so this network seems to "
        "block UDP port {port} to {address}.",
        "Try another network, for example a mobile phone's. Culvert keeps trying; the tunnel works as soon as its packets "
        "come through.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.PATH_NARROW: Entry(
        "Only small packets pass between here and the gateway {gateway}, so large answers of {name} get lost.",
        "Use another network, or tell this network's administrator: packets of 1280 bytes must pass. Culvert tries again.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.STATE_UNREADABLE: Entry(
        "The file {path} cannot be read: {why}. Protected addresses stay blocked.",
        "Restore the file, or ask your administrator for a new invitation and enrol again.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.ORGANISATIONS_COLLIDE: Entry(
        "{what} cannot be used by {organisation}: {other}, with which this computer is enrolled too, has it already.",
        "Tell both administrators: one of them has to change it. Or leave one of the two organisations.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Run: culvert leave {organisation}",
    ),
    Reason.ORGANISATION_UNCLEAR: Entry(
        "This computer is enrolled with several organisations, and the command names none of them: {organisations}.",
        "Name one: --organisation NAME. Or use the whole name in DNS.",
        _G.INVALID_ARGUMENT,
        _H.UNPROCESSABLE_ENTITY,
    ),
    Reason.CONSENT_NEEDED: Entry(
        "The controller wants to carry traffic to the public networks {prefixes}, and nobody has agreed to that.",
        "Look at the networks and decide.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Run: culvert agree",
    ),
    Reason.DATAPATH_FAILED: Entry(
        "This computer could not set the tunnel up: {why}.",
        "Restart the daemon; if it lasts, tell your administrator.",
        _G.INTERNAL,
        _H.INTERNAL_SERVER_ERROR,
    ),
    Reason.STATE_UNWRITABLE: Entry(
        "{path} cannot be written: {why}.",
        "Free space on its disk, and see that root may write there. Then try again.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.STATE_FORGOTTEN: Entry(
        "The file {path} cannot be read: {why}. {what}.",
        "Make the choice again; Culvert then writes a new file. Protected addresses stay blocked.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.UDP_PORT_TAKEN: Entry(
        "{what} has UDP port {port}, which tunnels need. Protected addresses stay blocked.",
        "Stop it, or set udp_port in /etc/culvert/culvertd.toml to another port.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "To see it, run: sudo ss -unlp sport = :{port}",
    ),
    Reason.TUN_NAME_TAKEN: Entry(
        "A network device of another program is named {device}, as Culvert's own. Protected addresses stay blocked.",
        "Stop that program, or set tun_name in /etc/culvert/culvertd.toml to another name.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.TUN_MISSING: Entry(
        "This computer has no /dev/net/tun, which tunnels need. Protected addresses stay blocked.",
        "Load the kernel's module tun.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Run: sudo modprobe tun",
    ),
    Reason.TUN_FORBIDDEN: Entry(
        "The Culvert daemon may not make the network device {device}. Protected addresses stay blocked.",
        "Start the daemon as a service of the system. In a container, it needs CAP_NET_ADMIN and /dev/net/tun.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Run: sudo systemctl start culvertd",
    ),
    Reason.TUN_LOST: Entry(
        "Another program removed the network device {device}, and with it all tunnels. Protected addresses stay blocked.",
        "Nothing to do: Culvert makes the device again, and opens the tunnels again.",
        _G.ABORTED,
        _H.GONE,
    ),
    Reason.DNS_UPSTREAM_FAILED: Entry(
        "The name server did not answer for {name}.",
        "Check the network connection and try again.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_UPDATE_REFUSED: Entry(
        "The name server {server} refused the update of {zone}: {why}.",
        "Check the TSIG key and the zone's update policy. Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_UPDATE_UNREACHABLE: Entry(
        "The name server {server} does not answer: {why}.",
        "Check that it runs and that the network lets the update through. Culvert tries again by itself.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_UPDATE_IGNORED: Entry(
        "The name server {server} accepted the update of {name} in {zone}, but has not carried it out: {types}.",
        "Read its log: its policy may pass over some types. If it is a secondary, enter its primary as the zone's name "
        "server. Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_UPDATE_FAILED: Entry(
        "The name server {server} failed with the zone {zone}: {why}.",
        "Read its log. Culvert tries again by itself.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_TRANSFER_REFUSED: Entry(
        "The name server {server} does not transfer {zone} to Culvert: {why}.",
        "Check the TSIG key, the zone's name, and which keys may transfer the zone. Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_CLOCK_WRONG: Entry(
        "The name server {server} and Culvert refuse each other's signatures: its clock and ours differ by more than "
        "5 minutes.",
        "Set both clocks by NTP. Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_KEY_LIMITED: Entry(
        "The TSIG key {key} may not write {types} of {name} in {zone}.",
        "Allow it in the name server's update policy. Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_NAME_REFUSED: Entry(
        "The name server {server} refused the records of {name}, though the TSIG key may write them: {why}.",
        "Give the resource another name, or let the server accept this one; its log has the cause. "
        "Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_ZONE_MISSING: Entry(
        "{name} is not published: it is in none of the zones that Culvert keeps.",
        "Add the zone that contains {name}, or give the resource another name.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.DNS_NAME_OCCLUDED: Entry(
        "{name} is not served from {zone}: {cut} is {why}.",
        "Publish {name} in the zone that answers for it, or give the resource another name. "
        "Leave the records of {cut} as they are.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.DNS_NAME_NOT_SERVED: Entry(
        "The zone {zone} holds {name}, but the name server {server} does not serve it: {why}.",
        "If this lasts, look for a cache, a view or a response policy of that server. Culvert asks again by itself.",
        _G.UNAVAILABLE,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_RECORD_FOREIGN: Entry(
        "{name} has records in {zone} that Culvert does not own: {types}.",
        "Delete these in the zone, or give the resource another name. Culvert leaves them alone.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.DATABASE_DOWN: Entry(
        "The controller cannot reach its database.",
        "Try again in a moment. Tunnels that are up stay up.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.DATABASE_BUSY: Entry(
        "Another change in the controller's database must end first.",
        "Try again in a moment. If this lasts, look for long transactions in Postgres (pg_stat_activity).",
        _G.ABORTED,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.TIMEOUT: Entry(
        "{what} took too long.",
        "Try again; if it lasts, tell your administrator.",
        _G.DEADLINE_EXCEEDED,
        _H.GATEWAY_TIMEOUT,
    ),
    Reason.INTERNAL: Entry(
        "Something went wrong inside Culvert.",
        "Try again; if it lasts, tell your administrator.",
        _G.INTERNAL,
        _H.INTERNAL_SERVER_ERROR,
    ),
    Reason.CONTROLLER_UNTRUSTED: Entry(
        "{controller} is not the controller that the invitation names. Nothing was sent to it.",
        "Check the link with your administrator: somebody may be in between.",
        _G.UNAUTHENTICATED,
        _H.BAD_GATEWAY,
    ),
    Reason.DNS_KEY_UNUSABLE: Entry(
        "The TSIG key {key} of the zone {zone} cannot be used: {why}.",
        "Put the key into the DNS updater's key directory as {key}.key, mode 0600. Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.BAD_GATEWAY,
    ),
    Reason.GATEWAY_IN_USE: Entry(
        "The gateway {gateway} is in use: {why}.",
        "Remove the gateway from its resources, whose tunnels then move or close, and delete its site tunnels.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.CRYPTO_HOST_IN_USE: Entry(
        "The crypto host {host} serves {sas} SAs.",
        "Drain it, wait until it serves none, and delete it then.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.RESOURCE_IN_USE: Entry(
        "The site tunnel {tunnel} carries the resource {resource}: {why}.",
        "Take the resource out of the site tunnel first, or change the two so that they fit.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.GATEWAY_ELSEWHERE: Entry(
        "The gateway {gateway} belongs to the controller {owner}, which alone reads its tables.",
        "Ask the controller {owner}.",
        _G.FAILED_PRECONDITION,
        _H.MISDIRECTED_REQUEST,
    ),
    Reason.GATEWAY_DRAINING: Entry(
        "The gateway {gateway} is being taken out of service.",
        "Nothing to do where another gateway serves the name; otherwise ask your administrator.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.GATEWAY_REPLACED: Entry(
        "An administrator has given {name} another gateway than {gateway}.",
        "Nothing to do: the tunnel moves by itself.",
        _G.UNAVAILABLE,
        _H.SERVICE_UNAVAILABLE,
    ),
    Reason.GATEWAY_NEEDED: Entry(
        "Only the gateway {gateway} serves {what}.",
        "Give these another gateway first; or drain {gateway} anyway: its open tunnels stay, and no new ones open.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.GATEWAY_NAME_RESERVED: Entry(
        "A gateway cannot be named {gateway}: {why}.",
        "Give the gateway another name: lower-case letters, digits and hyphens, and no name of a controller.",
        _G.INVALID_ARGUMENT,
        _H.UNPROCESSABLE_ENTITY,
    ),
    Reason.GATEWAY_KEY_UNKNOWN: Entry(
        "The gateway {gateway} has another key-encryption key than the controller keeps for it.",
        "Install the gateway's newest bundle on it, or make a new bundle.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.JOIN_LINK_UNKNOWN: Entry(
        "This controller does not know the link: it was altered, withdrawn or replaced, or is another controller's.",
        "Copy the whole link from the console again, or make a new one there.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.JOIN_LINK_USED: Entry(
        "The link of the gateway {gateway} was used already.",
        "If {gateway} has not joined itself, find out from the audit log who has. Make a new link in the console.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.JOIN_LINK_EXPIRED: Entry(
        "The link of the gateway {gateway} has expired: a link is good for one hour.",
        "Make a new link in the console.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.POOL_OVERLAPS: Entry(
        "The address pool {pool} of the gateway {gateway} overlaps {what}.",
        "Make a new link with an address pool that no other network uses.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.GATEWAY_NOT_JOINED: Entry(
        "The controller knows no gateway with this key: it has left, was deleted, or has newer keys.",
        "Make a new link in the console, and join with it.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.HISTORY_NOT_KEPT: Entry(
        "The controller can decide about times since {since}, and about none before.",
        "Choose a later time. The audit log has the refusals of earlier times with their reasons.",
        _G.FAILED_PRECONDITION,
        _H.GONE,
    ),
    Reason.ASSERTION_BROKEN: Entry(
        "The change would break: {assertions}.",
        "Make the change so that this still holds, or delete the assertion first.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.PAUSED: Entry(
        "Culvert is paused.",
        "Resume it to open tunnels again.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "Run: culvert resume",
    ),
    Reason.CONTROLLER_INVALID: Entry(
        "This computer rejects the controller's settings: {why}.",
        "Tell your administrator. The earlier settings stay in force.",
        _G.INTERNAL,
        _H.BAD_GATEWAY,
    ),
    Reason.ADDRESS_COLLISION: Entry(
        "The protected network {prefix} collides with {what}.",
        "Use another network, or ask your administrator to protect less. The earlier settings stay in force.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.LOCAL_NETWORK_OPEN: Entry(
        "{network} on {device} is a network that this computer made itself, inside the protected network {prefix}. "
        "It stays reachable without a tunnel.",
        "Intranet addresses in {network} are reached only if a resource names them. Give {device} another network.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.LOCAL_NETWORK_BLOCKED: Entry(
        "{network} on {device} overlaps with protected networks: {prefix}. "
        "Addresses in both are reached through tunnels alone.",
        "Give {device} another network, use another network, or ask your administrator to protect less.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.LOCAL_NETWORK_UNPROTECTED: Entry(
        "This computer needs {network} itself, which lies in the protected network {prefix}. "
        "Packets to {network} go out without a tunnel.",
        "Resources in {network} cannot be opened here. Use another network, or ask your administrator to protect less.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.DNS_SETTINGS_CONTESTED: Entry(
        "Another program keeps changing this computer's name service: {what}. Names of the intranet may not be found.",
        "Tell that program to leave the name service alone, or end it. Culvert tries again once a minute.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.DNS_SETTINGS_FAILED: Entry(
        "Culvert cannot set this computer's name service: {why}. Names of the intranet may not be found.",
        "Remove the obstacle, such as an immutable file or a stopped service. Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "To change an immutable file, run: sudo chattr -i FILE",
    ),
    Reason.DNS_PORT_UNUSABLE: Entry(
        "Culvert cannot answer DNS queries at port {port} of {host}: {why}. Names of the intranet may not be found.",
        "Free the port, or set dns_listen in /etc/culvert/culvertd.toml to another address of this computer. "
        "Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
        "To see what has the port, run: sudo ss -lnp sport = :{port}",
    ),
    Reason.DNS_WATCH_FAILED: Entry(
        "Culvert cannot watch the names that programs ask for: {why}. A tunnel then opens at its first packet.",
        "Give culvertd CAP_NET_RAW, or set dns_mode to stub in /etc/culvert/culvertd.toml. "
        "Culvert tries again by itself.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.DNS_SERVERS_FORGOTTEN: Entry(
        "This network's name servers are not known: the file {path}, which had them, cannot be read: {why}. "
        "Only names of the intranet are found.",
        "Connect to the network again, or write its name servers into /etc/resolv.conf.",
        _G.FAILED_PRECONDITION,
        _H.CONFLICT,
    ),
    Reason.DNS_REBINDING: Entry(
        "The name server answers the protected address {address} for {name}, which is not a name of the intranet.",
        "If {name} belongs to the intranet, ask your administrator to add its zone. "
        "If not, a web page may be trying to reach the intranet.",
        _G.PERMISSION_DENIED,
        _H.FORBIDDEN,
    ),
    Reason.CLOSED_BY_USER: Entry(
        "The tunnel was closed by the user.", "Open the name again to bring it back.", _G.CANCELLED, _H.GONE
    ),
    Reason.CLOSED_IDLE: Entry(
        "The tunnel was closed because it was idle.",
        "Open the name again to bring it back.",
        _G.CANCELLED,
        _H.GONE,
    ),
    Reason.DAEMON_STOPPED: Entry(
        "The tunnel was closed because Culvert was stopped on the computer.",
        "Open the name again to bring it back.",
        _G.CANCELLED,
        _H.GONE,
    ),
    Reason.CLOSED_BY_ADMIN: Entry(
        "The tunnel was closed by an administrator: {why}.", "Ask your administrator.", _G.CANCELLED, _H.GONE
    ),
    Reason.SA_LOST: Entry(
        "The gateway {gateway} has lost the tunnel's keys.",
        "Nothing to do: the tunnel is opened again when it is next used.",
        _G.ABORTED,
        _H.GONE,
    ),
    Reason.PEER_SILENT: Entry(
        "The gateway {gateway} sends to this computer, and gets no packets from it.",
        "Check the network connection, and open the name again.",
        _G.ABORTED,
        _H.GONE,
    ),
    Reason.TUNNEL_OUTDATED: Entry(
        "The tunnel was closed because {what} was changed.",
        "Open the name again to bring it back.",
        _G.ABORTED,
        _H.GONE,
    ),
}


class CulvertError(Exception):
    """A typed refusal or fault, rendered from the catalogue.

    Raises KeyError when a field of the reason's template is missing: that is a fault of the raiser.
    """

    def __init__(self, reason: Reason, **fields: object) -> None:
        self.reason = reason
        self.fields = {name: str(value) for name, value in fields.items()}
        self.message, self.remedy = self._words()
        super().__init__(f"{self.message} {self.remedy}")

    @classmethod
    def from_proto(cls, error: error_pb2.Error) -> CulvertError:
        """Take over the texts that were sent, or say the same in the person's language.

        An unknown reason of a newer peer becomes INTERNAL with its own texts; these also stay where a field is missing.
        """
        self = cls.__new__(cls)
        self.fields = receive_fields(error.fields, error.phrases)
        self.message, self.remedy = error.message, error.remedy
        try:
            self.reason = Reason(error.reason)
        except ValueError:
            self.reason = Reason.INTERNAL
        else:
            if translates() and CATALOGUE[self.reason].fields() <= self.fields.keys():
                self.message, self.remedy = self._words()
        Exception.__init__(self, f"{self.message} {self.remedy}")
        return self

    def to_proto(self) -> error_pb2.Error:
        return error_pb2.Error(
            reason=error_pb2.Reason.ValueType(self.reason),
            message=self.message,
            remedy=self.remedy,
            fields=self.fields,
            phrases=phrases(self.fields),
        )

    def _words(self) -> tuple[str, str]:
        fields = localise_fields(self.fields) if translates() else dict(self.fields)
        if (wait := self.retry_after) is not None:
            # A lock of an hour is not read as 3600 seconds.
            fields["seconds"] = duration(wait)
        entry = CATALOGUE[self.reason]
        return words(entry.message).format(**fields), words(entry.remedy).format(**fields)

    @property
    def shell(self) -> str:
        """The remedy's command in words for a terminal; empty without one, or without its fields."""
        if not self.entry.fields() <= self.fields.keys():
            return ""
        return words(self.entry.shell).format(**self.fields) if self.entry.shell else ""

    def localise(self, language: str) -> tuple[str, str]:
        """Message and remedy in this language."""
        fields, entry = localise_fields(self.fields, language), self.entry
        return words(entry.message, language).format(**fields), words(entry.remedy, language).format(**fields)

    @property
    def retry_after(self) -> int | None:
        """In seconds; of a reason that passes by itself."""
        seconds = self.fields.get("seconds", "")
        return int(seconds) if seconds.isdecimal() else None

    @property
    def page(self) -> str:
        """The path of the reason's page at each controller."""
        return f"/docs/reasons/{self.reason.name}"

    @property
    def entry(self) -> Entry:
        return CATALOGUE[self.reason]
