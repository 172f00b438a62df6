"""What went wrong with TLS, in half a sentence for a log: OpenSSL's own words are for those who know them."""

from __future__ import annotations

import ssl

from tidelog.net.errors import other_protocol

_HANDSHAKE_RECORD = 0x16

# OpenSSL's numbers for chains that end with nobody who is trusted.
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})

# What the other side said in an alert. OpenSSL has the names of its former versions in them.
_ALERTS_ABOUT_OUR_CERTIFICATE = {
    "UNKNOWN_CA": "it is signed by an authority that the {peer} does not know",
    "CERTIFICATE_UNKNOWN": "the {peer} does not trust it",
    "BAD_CERTIFICATE": "the {peer} does not accept it",
    "CERTIFICATE_EXPIRED": "it has expired",
    "CERTIFICATE_REVOKED": "it was revoked",
    "UNSUPPORTED_CERTIFICATE": "it is of a kind that the {peer} does not take",
}
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the {peer} showed no certificate, and ssl.client.auth requires one",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the {peer} requires a certificate, and none was shown",
    "NO_SHARED_CIPHER": "there is no cipher suite that both sides allow",
    "UNSUPPORTED_PROTOCOL": "there is no version of TLS that both sides allow",
    "TLSV1_ALERT_PROTOCOL_VERSION": "there is no version of TLS that both sides allow",
    "NO_PROTOCOLS_AVAILABLE": "there is no version of TLS that both sides allow",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the {peer} found nothing that both sides allow, or wants a certificate",
    "HTTP_REQUEST": "the {peer} sent an HTTP request",
}


def tls_problem(error: ssl.SSLError, peer: str) -> str:
    """Why a connection came to nothing. `peer` is `client` or `node`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        unknown = "its authority is not in the trust store: " if error.verify_code in _UNKNOWN_AUTHORITY else ""
        return f"the certificate of the {peer} is not accepted: {unknown}{error.verify_message}"
    reason = error.reason or ""
    for alert, meaning in _ALERTS_ABOUT_OUR_CERTIFICATE.items():
        if reason.endswith(f"ALERT_{alert}"):
            return f"the {peer} refuses our certificate: {meaning.format(peer=peer)}"
    known = _REASONS.get(reason)
    if known is not None:
        return known.format(peer=peer)
    if peer == "node" and reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}:
        return "the node does not speak TLS (is its listener one without TLS?)"
    return f"TLS failed: {reason.replace('_', ' ').lower() or error}"


def not_tls(first: bytes | memoryview) -> str | None:
    """What the first bytes of a client are, where they do not begin a TLS connection."""
    if first[0] == _HANDSHAKE_RECORD:
        return None
    what = other_protocol(bytes(first[:4])) or (
        "a frame of the Kafka protocol without TLS (is security.protocol=SSL missing in the client?)"
        if first[0] == 0
        else "bytes that no TLS connection begins with"
    )
    return f"the client sent {what}, where TLS was to begin"
