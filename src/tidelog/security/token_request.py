"""What a token endpoint is asked: header and body of the request, in the three ways that Kafka's clients have.

    ClientSecret(client_id, secret, scope)        client credentials, with an id and a secret (Basic authentication)
    AssertedClient(client_id, scope, assertion)   client credentials, with a signed assertion instead of the secret (KIP-1258)
    JwtBearer(scope, assertion)                   the assertion itself is what a token is given for (KIP-1139)

The bodies are those of Kafka's formatters, byte for byte. `assertion` gives the text of one, and may read files.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote_plus, urlencode

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
BEARER_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"

_HEADERS = {
    "Accept": "application/json",
    "Cache-Control": "no-cache",
    "Content-Type": "application/x-www-form-urlencoded",
}


class TokenRequest(Protocol):
    """Made anew for each question."""

    def headers(self) -> dict[str, str]: ...

    def body(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """Who a client is says a secret."""

    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    header_urlencode: bool = False

    def headers(self) -> dict[str, str]:
        client_id, secret = self.client_id.strip(), self.client_secret.strip()
        if self.header_urlencode:
            client_id, secret = quote_plus(client_id), quote_plus(secret)
        credentials = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        return {**_HEADERS, "Authorization": f"Basic {credentials}"}

    def body(self) -> bytes:
        scope = (self.scope or "").strip()
        if self.header_urlencode:
            scope = quote_plus(scope)
        return (f"grant_type=client_credentials&scope={scope}" if scope else "grant_type=client_credentials").encode()


@dataclass(frozen=True, slots=True)
class AssertedClient:
    """Who a client is says an assertion. The id may be in it."""

    client_id: str | None
    scope: str | None
    assertion: Callable[[], str]

    def headers(self) -> dict[str, str]:
        return dict(_HEADERS)

    def body(self) -> bytes:
        form = {
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": self.assertion(),
            "grant_type": "client_credentials",
        }
        if (self.client_id or "").strip():
            form["client_id"] = str(self.client_id)
        return _with_scope(form, self.scope)


@dataclass(frozen=True, slots=True)
class JwtBearer:
    """An assertion is exchanged for a token."""

    scope: str | None
    assertion: Callable[[], str]

    def headers(self) -> dict[str, str]:
        return dict(_HEADERS)

    def body(self) -> bytes:
        return _with_scope({"grant_type": BEARER_GRANT, "assertion": self.assertion()}, self.scope)


def _with_scope(form: dict[str, str], scope: str | None) -> bytes:
    if (scope or "").strip():
        form["scope"] = str(scope).strip()
    # As Java's URLEncoder: `*` is left, `~` is not.
    return urlencode(form, safe="*").replace("~", "%7E").encode()
