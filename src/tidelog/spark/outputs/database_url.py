"""Where a database is, as a URL: `sqlite:///path/file.db`, `postgresql://user:${env:PASSWORD}@host:port/db?sslmode=require`.

Secrets are references, and stay so until a connection is made: the URL is part of decisions, which others read. A reference may
hold slashes and colons, so it is taken out before the URL is divided, and a resolved secret is never parsed. Pure, but for
`secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from tidelog.spark.errors import OptionError
from tidelog.spark.outputs.kind import OutputRefusedError
from tidelog.spark.secret_references import has_reference, resolved

_REFERENCE = re.compile(r"\$\{[^{}]*\}")
# A character that no URL has; the number of the reference stands between two of them.
_MARK = "\x01"
_MARKED = re.compile(f"{_MARK}([0-9]+){_MARK}")
_SECRETS = frozenset({"password", "sslpassword"})


class DatabaseUrl(msgspec.Struct, frozen=True):
    """A URL in its parts. Secrets are references in it."""

    scheme: str
    host: str
    port: int | None
    user: str
    password: str
    database: str
    """Of SQLite an absolute path."""
    settings: Mapping[str, str]

    def secrets(self) -> dict[str, str]:
        """All parts in which a reference may be, resolved now: user, password and settings. OutputRefusedError."""
        try:
            found: dict[str, str] = resolved({"user": self.user, "password": self.password, **self.settings})
        except OptionError as error:
            raise OutputRefusedError(f"in the database's URL {str(error).removeprefix('kafka.')}") from None
        return found

    def __str__(self) -> str:
        """For messages: without user, password and settings."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}/{self.database.lstrip('/')}"


def parse_url(text: str, *, schemes: tuple[str, ...], settings: frozenset[str]) -> DatabaseUrl:
    """OutputRefusedError for what is no URL of these schemes, and for a secret that stands in it."""
    references = _REFERENCE.findall(text)
    numbers = iter(range(len(references)))
    marked = _REFERENCE.sub(lambda _match: f"{_MARK}{next(numbers)}{_MARK}", text.replace(_MARK, ""))

    def whole(part: str) -> str:
        return _MARKED.sub(lambda match: references[int(match[1])], unquote(part))

    try:
        split = urlsplit(marked)
        port = split.port
    except ValueError:
        raise OutputRefusedError(
            "the URL of the database cannot be read: expected SCHEME://USER@HOST:PORT/DATABASE"
        ) from None
    if split.scheme not in schemes:
        raise OutputRefusedError(
            f"the URL of the database has the scheme {split.scheme or '(none)'}, expected {schemes[0]}"
        )
    found = DatabaseUrl(
        scheme=schemes[0],
        host=whole(split.hostname or ""),
        port=port,
        user=whole(split.username or ""),
        password=whole(split.password or ""),
        database=whole(split.path),
        settings={name: whole(value) for name, value in parse_qsl(split.query, keep_blank_values=True)},
    )
    _refuse_secrets(found)
    unknown = sorted(set(found.settings) - settings)
    if unknown:
        raise OutputRefusedError(
            f"there is no setting {unknown[0]} in the URL of a {schemes[0]} database; known are {', '.join(sorted(settings))}"
        )
    return found


def _refuse_secrets(url: DatabaseUrl) -> None:
    for name, value in {"password": url.password, **url.settings}.items():
        if name in _SECRETS and value and not has_reference(value):
            raise OutputRefusedError(
                f"the URL of the database holds its {name}, which would be recorded: write a reference such as ${{env:PASSWORD}}"
            )
