"""A schema registry, asked over Confluent's REST interface: by subject, by version and by id.

    GET  /subjects/S/versions/latest    what values of a topic look like now
    GET  /subjects/S/versions/N
    GET  /schemas/ids/N                 what a frame's id stands for
    POST /subjects/S                    whether a schema is registered there
    POST /subjects/S/versions           register it
    POST /compatibility/subjects/S/versions/latest

Answers are bounded in size and in time. A registry that does not answer, or answers 5xx or 429, is asked again a few times.
A redirect is not followed: it would carry the credentials somewhere else.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from tidelog.spark.secret_references import resolved_text

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
ATTEMPTS_MAX = 4
# An answer that drips in byte by byte must not hold a task for ever.
ANSWER_TIMEOUT_S = 30.0
_SOCKET_TIMEOUT_S = 10.0
_BACKOFF_S = 0.2
# A schema of several megabytes is a mistake or an attack.
ANSWER_BYTES_MAX = 16 * 1024 * 1024
# All schemas that one schema refers to, directly or not.
REFERENCES_MAX = 100
_SENTENCE_MAX = 400

_NOT_FOUND = {40401, 40402, 40403}
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryError(Exception):
    """The registry does not give what it is asked for; one sentence says why."""


class UnknownSchemaError(RegistryError):
    """It answers, and has no such schema."""


class IncompatibleSchemaError(RegistryError):
    """It refuses a schema, as not compatible with those that the subject has."""


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """Where a registry is, and who asks. Secrets may be references: they are resolved by whoever makes the client."""

    url: str
    user: str | None = None
    password: str | None = None
    token: str | None = None
    ca: str | None = None
    """A file of certificates in PEM that are trusted, instead of the system's."""

    def __repr__(self) -> str:
        return f"RegistryAddress({self.url!r})"


class Reference(NamedTuple):
    """A schema that another one names."""

    name: str
    subject: str
    version: int


class ReferencedText(NamedTuple):
    """A schema under the name by which others refer to it."""

    name: str
    text: str


class Schema(NamedTuple):
    """A schema with all that it refers to, so that nobody has to be asked for it again."""

    kind: str
    text: str
    references: tuple[ReferencedText, ...] = ()
    """Each behind those that it refers to itself."""
    named: tuple[Reference, ...] = ()
    """What it refers to, as a registry is told of it."""


class RegisteredSchema(NamedTuple):
    schema_id: int
    version: int
    schema: Schema


class SchemaRegistry:
    """A client. OptionError where a secret that the address refers to is not there."""

    def __init__(self, address: RegistryAddress, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._url = address.url
        self._is_secure, self._host, self._port, self._path = _parts(address.url)
        self._headers = {"Accept": f"{_CONTENT_TYPE}, application/json", "Connection": "close"}
        self._sleep = sleep
        self._context: ssl.SSLContext | None = None
        if self._is_secure:
            try:
                self._context = ssl.create_default_context(cafile=address.ca)
            except (OSError, ssl.SSLError) as error:
                raise RegistryError(f"the certificates in {address.ca} cannot be read: {error}") from None
        credentials = _credentials(address)
        if credentials is not None:
            self._headers["Authorization"] = credentials

    def schema(self, schema_id: int) -> Schema:
        """What an id stands for. UnknownSchemaError where the registry has none of it."""
        answer = self._asked("GET", f"/schemas/ids/{schema_id}", f"schema {schema_id}")
        return self._complete(answer, f"schema {schema_id}")

    def version(self, subject: str, version: int | None = None) -> RegisteredSchema:
        """A version of a subject, the latest unless told."""
        what = f"the subject {subject}" if version is None else f"version {version} of the subject {subject}"
        path = f"/subjects/{quote(subject, safe='')}/versions/{'latest' if version is None else version}"
        answer = self._asked("GET", path, what)
        found_id, found_version = answer.get("id"), answer.get("version")
        if not isinstance(found_id, int) or not isinstance(found_version, int):
            raise RegistryError(f"{self._url} did not answer with {what}")
        return RegisteredSchema(found_id, found_version, self._complete(answer, what))

    def find(self, subject: str, schema: Schema) -> int | None:
        """The id of a schema that is registered under a subject; None if it is not."""
        try:
            answer = self._asked(
                "POST", f"/subjects/{quote(subject, safe='')}", f"the subject {subject}", _told(schema)
            )
        except UnknownSchemaError:
            return None
        return self._id(answer, subject)

    def register(self, subject: str, schema: Schema) -> int:
        """The id of a schema under a subject, which has it from then on. IncompatibleSchemaError where that is refused."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return self._id(self._asked("POST", path, f"the subject {subject}", _told(schema)), subject)

    def check_compatible(self, subject: str, schema: Schema) -> None:
        """IncompatibleSchemaError where `register` would be refused; a subject that has no schema yet takes any."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        try:
            answer = self._asked("POST", path, f"the subject {subject}", _told(schema))
        except UnknownSchemaError:
            return
        if answer.get("is_compatible") is False:
            messages = answer.get("messages")
            why = "; ".join(map(str, messages)) if isinstance(messages, list) else ""
            raise IncompatibleSchemaError(_incompatible(subject, why))

    def _complete(self, answer: Mapping[str, Any], what: str) -> Schema:
        """A schema of an answer with all that it refers to."""
        text, kind, named = self._schema_of(answer, what)
        found: dict[str, ReferencedText] = {}
        self._add_references(named, found, frozenset())
        return Schema(kind, text, tuple(found.values()), named)

    def _add_references(
        self, named: tuple[Reference, ...], found: dict[str, ReferencedText], above: frozenset[str]
    ) -> None:
        for each in named:
            if each.name in found:
                continue
            if each.name in above or len(found) + len(above) >= REFERENCES_MAX:
                raise RegistryError(f"schemas of {self._url} refer to themselves, or to more than {REFERENCES_MAX}")
            what = f"version {each.version} of the subject {each.subject}"
            # One that others refer to may have been deleted since, and counts all the same.
            path = f"/subjects/{quote(each.subject, safe='')}/versions/{each.version}?deleted=true"
            text, _, further = self._schema_of(self._asked("GET", path, what), what)
            self._add_references(further, found, above | {each.name})
            found[each.name] = ReferencedText(each.name, text)

    def _schema_of(self, answer: Mapping[str, Any], what: str) -> tuple[str, str, tuple[Reference, ...]]:
        text, kind = answer.get("schema"), answer.get("schemaType") or AVRO
        references = answer.get("references") or []
        try:
            named = tuple(
                Reference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in references
            )
        except (TypeError, KeyError, ValueError):
            raise RegistryError(f"{self._url} did not answer with {what}: its references are none") from None
        if not isinstance(text, str) or not isinstance(kind, str):
            raise RegistryError(f"{self._url} did not answer with {what}")
        return text, kind.upper(), named

    def _id(self, answer: Mapping[str, Any], subject: str) -> int:
        found = answer.get("id")
        if not isinstance(found, int) or not 0 <= found < 2**31:
            raise RegistryError(f"{self._url} did not answer with the id of a schema under the subject {subject}")
        return found

    def _asked(self, method: str, path: str, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The object that it answers with. UnknownSchemaError, IncompatibleSchemaError or RegistryError otherwise."""
        last = ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._sleep(_BACKOFF_S * 2**attempt * (0.5 + random.random() / 2))
            try:
                status, answer = self._exchange(method, path, body)
            except ssl.SSLCertVerificationError as error:
                raise RegistryError(f"the certificate of {self._url} is not trusted: {error.verify_message}") from None
            except (OSError, http.client.HTTPException) as error:
                last = str(error) or type(error).__name__
                continue
            if status == 429 or status >= 500:
                last = f"it answers {status}{_sentence(answer)}"
                continue
            return self._read(status, answer, what)
        raise RegistryError(f"{what} cannot be had from {self._url}: {last}")

    def _read(self, status: int, answer: bytes, what: str) -> dict[str, Any]:
        match status:
            case 401 | 403:
                raise RegistryError(
                    f"{self._url} does not let us ask for {what}: it answers {status}{_sentence(answer)}"
                )
            case 404 if _error_code(answer) in _NOT_FOUND:
                raise UnknownSchemaError(f"{self._url} has no {what.removeprefix('the ')}")
            case 409:
                raise IncompatibleSchemaError(_incompatible(what.removeprefix("the subject "), _message(answer)))
            case 422:
                raise RegistryError(f"{self._url} refuses the schema for {what}{_sentence(answer)}")
        if status != 200:
            raise RegistryError(f"{what} cannot be had from {self._url}: it answers {status}{_sentence(answer)}")
        try:
            read = json.loads(answer)
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            raise RegistryError(f"{self._url} did not answer with {what}")
        return read

    def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        connection: http.client.HTTPConnection
        if self._context is not None:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=_SOCKET_TIMEOUT_S, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=_SOCKET_TIMEOUT_S)
        try:
            sent = None if body is None else json.dumps(body).encode()
            headers = self._headers if body is None else {**self._headers, "Content-Type": _CONTENT_TYPE}
            connection.request(method, self._path + path, sent, headers)
            answer = connection.getresponse()
            read = bytearray()
            while part := answer.read1(65_536):
                read += part
                if len(read) > ANSWER_BYTES_MAX:
                    raise RegistryError(f"an answer of {self._url} has more than {ANSWER_BYTES_MAX} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no whole answer within {ANSWER_TIMEOUT_S:.0f} seconds")
            return answer.status, bytes(read)
        finally:
            connection.close()


def _parts(url: str) -> tuple[bool, str, int, str]:
    """Whether it is TLS, host, port and path."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise RegistryError(f"{url!r} is not the address of a schema registry: expected http://host:port")
    if parts.username is not None:
        raise RegistryError("the address of a schema registry holds credentials: give user= and password= instead")
    is_secure = parts.scheme == "https"
    return is_secure, parts.hostname, port or (443 if is_secure else 80), parts.path.rstrip("/")


def check_url(url: str) -> None:
    """RegistryError for what is no address of a registry."""
    _parts(url)


def _credentials(address: RegistryAddress) -> str | None:
    if address.token is not None:
        token = resolved_text("token of Registry", address.token).strip()
        if not (token.isascii() and token.isprintable()):
            raise RegistryError("the token of Registry has characters that cannot be sent")
        return f"Bearer {token}"
    if address.user is None:
        return None
    user = resolved_text("user of Registry", address.user)
    # A file ends with a line break, which is no part of a password.
    password = resolved_text("password of Registry", address.password or "").rstrip("\r\n")
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _told(schema: Schema) -> dict[str, Any]:
    told: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        told["schemaType"] = schema.kind
    if schema.named:
        told["references"] = [each._asdict() for each in schema.named]
    return told


def _incompatible(subject: str, why: str) -> str:
    said = f": {why[:_SENTENCE_MAX]}" if why else ""
    return f"the subject {subject} does not take the schema, which is not compatible with those that it has{said}"


def _sentence(answer: bytes) -> str:
    said = _message(answer)[:_SENTENCE_MAX]
    return f", {said}" if said else ""


def _message(answer: bytes) -> str:
    message = _error(answer).get("message")
    return " ".join(message.split()) if isinstance(message, str) else ""


def _error_code(answer: bytes) -> object:
    return _error(answer).get("error_code")


def _error(answer: bytes) -> dict[str, Any]:
    try:
        read = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
