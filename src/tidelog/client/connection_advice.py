"""What to set where a connection comes to nothing because the two ends expect different things of each other. Pure.

Neither end can know what the other one wants: a node that wants TLS closes a connection that begins without, one that wants a
login closes it at the first real request. So the sentence names what would explain it, once, and the option.
"""

from __future__ import annotations

from tidelog.client.security_options import SecurityOptions

_TRUST = "ssl_truststore_location says whom to trust"
_NAME = "use a name for the host that its certificate has"
_NO_TLS = "SSL and SASL_SSL are for listeners with TLS, and security_protocol is {protocol}"
_SHOW = "ssl_keystore_location is for the certificate to show"

# Words of OpenSSL's and of our own for what went wrong, and what to do about it.
_WORDS = {
    "is not in the trust store": _TRUST,
    "unable to get local issuer certificate": _TRUST,
    "unable to get issuer certificate": _TRUST,
    "self-signed certificate": _TRUST,
    "self signed certificate": _TRUST,
    "ostname mismatch": _NAME,
    "IP address mismatch": _NAME,
    "does not speak TLS": _NO_TLS,
    "closed the connection during the TLS handshake": _NO_TLS,
    "requires a certificate": _SHOW,
    "or wants a certificate": _SHOW,
    "does not expect a login": "SASL_PLAINTEXT and SASL_SSL are for listeners with SASL, and security_protocol is {protocol}",
    "is not enabled there": "sasl_mechanism has to be one of these",
}

# A node that stops, or that another one stands in front of, can end a connection at any time: the next attempt may succeed.
_PASSING = ("closed the connection", "timed out: no answer")
# With TLS 1.3 a client hears of it only after its own part of the handshake.
_REFUSALS = ("refuses our certificate", "requires a certificate")


def is_refusal(sentence: str) -> bool:
    """Whether a sentence about a connection that broke says that the node does not let this client in."""
    return any(words in sentence for words in _REFUSALS)


def may_pass(sentence: str) -> bool:
    """Whether a login or handshake failed for a reason that may be over the next time."""
    return any(words in sentence for words in _PASSING)


def with_advice(sentence: str, options: SecurityOptions) -> str:
    """A sentence about a login or a handshake that failed, with what to do about it where that is known."""
    for words, advice in _WORDS.items():
        if words in sentence:
            return f"{sentence}; {advice.format(protocol=options.security_protocol)}"
    return sentence


def with_guess(sentence: str, options: SecurityOptions, *, is_greeted: bool) -> str:
    """A sentence about a connection that a node closed before it has answered anything, or anything but the greeting, with what
    would explain that."""
    if not is_greeted and not options.uses_tls:
        return f"{sentence}; if its listener wants TLS, set security_protocol to SSL or SASL_SSL"
    if is_greeted and not options.uses_sasl:
        protocol = "SASL_SSL" if options.uses_tls else "SASL_PLAINTEXT or SASL_SSL"
        return f"{sentence}; if its listener wants a login, set security_protocol to {protocol}, and sasl_mechanism"
    return sentence
