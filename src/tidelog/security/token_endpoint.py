"""Where an OAUTHBEARER token comes from: an endpoint that is asked, or a file.

    endpoint = TokenEndpoint("https://id.example/token", ClientSecret("orders", secret, scope="kafka"))
    text = endpoint.fetch()                 # blocks: for a thread that may wait
    text = read_token_file("file:///var/run/token")

What is asked says a `TokenRequest`. Nothing is tried twice here; `TokenEndpointError.is_final` says whether trying again can
help, by the same HTTP status codes as Kafka's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import ssl

    from tidelog.security.token_request import TokenRequest

# A token has some kilobytes; a page that is sent instead of one must not fill the memory.
ANSWER_BYTES_MAX = 1_048_576
# An endpoint's own words, as Kafka shows them.
_WORDS_CHARS_MAX = 1000
_FINAL_STATUS = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
_REDIRECTS = range(300, 400)
_SUCCESS = (200, 201)


class TokenEndpointError(Exception):
    """No token came, in one sentence. `is_final`: the same question will not get one later either."""

    def __init__(self, sentence: str, *, is_final: bool) -> None:
        super().__init__(sentence)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """One endpoint, and what it is asked. `tls` makes the context for https, when it is first needed."""

    url: str
    request: TokenRequest
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    tls: Callable[[], ssl.SSLContext] | None = None

    def fetch(self) -> str:
        """Ask once, and wait for the answer: the token's text. TokenEndpointError where there is none."""
        # Loads http.client and ssl: only for those who ask an endpoint.
        from http.client import HTTPException  # noqa: PLC0415
        from urllib.error import URLError  # noqa: PLC0415

        try:
            status, answer = self._post()
        except URLError as error:
            raise self._failed(_reason(error.reason)) from None
        except (OSError, HTTPException, ValueError) as error:
            raise self._failed(_reason(error)) from None
        if status not in _SUCCESS:
            redirected = "; a redirection is not followed" if status in _REDIRECTS else ""
            raise TokenEndpointError(
                f"the token endpoint {self._name} answered with status {status}: {_own_words(answer)}{redirected}",
                is_final=status in _FINAL_STATUS or status in _REDIRECTS,
            )
        return self._token(answer)

    def _post(self) -> tuple[int, bytes]:
        from urllib.error import HTTPError  # noqa: PLC0415 - as above
        from urllib.request import Request  # noqa: PLC0415

        from tidelog.security.http_post import opener  # noqa: PLC0415

        asked = self.request
        request = Request(self.url, asked.body(), asked.headers(), method="POST")  # noqa: S310 - the scheme was checked
        is_https = self.url.lower().startswith("https:")
        context = self.tls() if self.tls is not None and is_https else None
        try:
            with opener(context, self.read_timeout_s).open(request, timeout=self.connect_timeout_s) as response:
                return response.status, _read(response, self._name)
        except HTTPError as error:
            with error:
                return error.code, _read(error, self._name)

    def _token(self, answer: bytes) -> str:
        try:
            said = json.loads(answer)
        except (ValueError, RecursionError):
            said = None
        for name in ("access_token", "id_token"):
            token = said.get(name) if isinstance(said, dict) else None
            if isinstance(token, str) and token.strip():
                return token.strip()
        raise TokenEndpointError(f"the answer of the token endpoint {self._name} has no access_token", is_final=True)

    @property
    def _name(self) -> str:
        """The URL without what may be a secret in it."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"

    def _failed(self, reason: str) -> TokenEndpointError:
        return TokenEndpointError(f"the token endpoint {self._name} was not reached: {reason}", is_final=False)


def read_token_file(url: str) -> str:
    """The token in a file, as `file:///path` or `file:/path`. Blocks for the disk. TokenEndpointError where there is none."""
    path = Path(unquote(urlsplit(url).path))
    try:
        with path.open("rb") as file:
            text = file.read(ANSWER_BYTES_MAX).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise TokenEndpointError(f"the token's file {path} cannot be read: {why}", is_final=False) from None
    if not text:
        raise TokenEndpointError(f"the token's file {path} is empty", is_final=False)
    return text


def _read(response: Any, name: str) -> bytes:
    answer: bytes = response.read(ANSWER_BYTES_MAX + 1)
    if len(answer) > ANSWER_BYTES_MAX:
        raise TokenEndpointError(
            f"the answer of the token endpoint {name} has more than {ANSWER_BYTES_MAX} bytes", is_final=True
        )
    return answer


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    verify = getattr(error, "verify_message", None)
    if verify:
        return f"its certificate is not trusted: {verify}"
    return (getattr(error, "strerror", None) or str(error)) if isinstance(error, OSError) else str(error)


def _own_words(answer: bytes) -> str:
    """What the endpoint says, by RFC 6749 section 5.2 or in Okta's way; as Kafka shows it."""
    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict):
        for code, words in (("error", "error_description"), ("errorCode", "errorSummary")):
            if code in said:
                return f"{json.dumps(said[code])} - {json.dumps(said.get(words, ''))}"[:_WORDS_CHARS_MAX]
    text = answer.decode("utf-8", "replace").strip()
    return text[:_WORDS_CHARS_MAX] or "nothing more"
