"""An API's own answer to a request of which nothing was done: Kafka's `AbstractRequest.getErrorResponse`.

    error_answer(request, version, ErrorCode.ILLEGAL_SASL_STATE, "not now")

Most answers have a place for an error at the top. In the others each entry has one, and the answer has an entry for each that the
request names: groups, topics with their partitions, resources. What tells an entry from the others is copied from the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from tidelog.wire.apis import ApiKey, api
from tidelog.wire.schema import ArrayOf, Field, Fixed, Request, Response, Sized, Struct, StructOf, fields_of

_CODES = ("error_code", "partition_error_code")
_WORDS = "error_message"
# What tells an entry from the others, in the request as in the answer.
_IDENTITIES = frozenset(
    {
        "entity", "entity_name", "entity_type", "group_id", "index", "name", "partition", "partition_index", "producer_id",
        "resource_name", "resource_type", "topic", "topic_id", "topic_name",
    }
)  # fmt: skip
_OTHER_NAMES = {"partition_index": "partition", "topic_name": "name", "user": "name"}

# What stands for nothing, where that is not Kafka's zero of the type.
_NOTHING: dict[str, object] = {
    **dict.fromkeys(("base_offset", "committed_offset", "high_watermark", "low_watermark", "node_id", "port"), -1),
    "records": b"",
}
_NOTHING_OF: dict[int, dict[str, object]] = {
    ApiKey.CREATE_DELEGATION_TOKEN: {
        "principal_type": "User",
        "principal_name": "ANONYMOUS",
        "token_requester_principal_type": "User",
        "token_requester_principal_name": "ANONYMOUS",
        **dict.fromkeys(("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"), -1),
    },
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
    ApiKey.INIT_PRODUCER_ID: {"producer_id": -1, "producer_epoch": -1},
}

# These name their entries too, although the error is at the top; Fetch in versions whose clients look for it there.
_NAMED_TOO = frozenset(
    {
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ELECT_LEADERS,
        ApiKey.METADATA,
    }
)
_FETCH_BY_ID_VERSION = 13
_NO_ANSWER = 0


def error_answer(request: Request, version: int, error_code: int, message: str) -> Response | None:
    """The answer in the version of the request; None for a request that is never answered."""
    key = request.api_key
    asked = cast("Any", request)
    if key == ApiKey.PRODUCE and asked.acks == _NO_ANSWER:
        return None
    error = _Error(version, error_code, message)
    answer = error.new(api(key).response)
    is_at_top = error.put(answer)
    if key == ApiKey.FETCH:
        answer.session_id = asked.session_id
        is_named = version < _FETCH_BY_ID_VERSION
    else:
        is_named = not is_at_top or key in _NAMED_TOO
    # Old versions of DescribeLogDirs have no place for an error: they tell of no directory.
    if is_named and key != ApiKey.DESCRIBE_LOG_DIRS:
        error.name_entries(_entries(request, version), answer)
    if key == ApiKey.METADATA:
        # A topic that was asked for by its id has no name in old versions of the answer.
        for topic in answer.topics:
            topic.name = topic.name or ""
    return cast("Response", answer)


class _Error:
    """One error, in one version of an API."""

    def __init__(self, version: int, code: int, message: str) -> None:
        self._version = version
        self._code = code
        self._message = message

    def new(self, struct: type[Struct]) -> Any:
        made = struct()
        nothing = {**_NOTHING, **_NOTHING_OF.get(getattr(struct, "api_key", -1), {})}
        for each in _fields(struct, self._version):
            if each.name in nothing:
                setattr(made, each.name, nothing[each.name])
        return made

    def put(self, struct: Any) -> bool:
        """Put the error into a struct, if that has a place for one."""
        names = {each.name for each in _fields(type(struct), self._version)}
        code = next((each for each in _CODES if each in names), None)
        if code is None:
            return False
        setattr(struct, code, self._code)
        if _WORDS in names:
            struct.error_message = self._message
        return True

    def name_entries(self, asked: Iterable[object], answer: Any) -> None:
        """One entry of the answer for each that is asked for, and so on within those that have no place for the error."""
        for each in _fields(type(answer), self._version):
            kind = _struct_in(each)
            if kind is not None and _has_place(kind, self._version):
                entries = []
                for element in asked:
                    entry = self.new(kind)
                    _identify(entry, element, self._version)
                    if not self.put(entry):
                        self.name_entries(_entries(element, self._version), entry)
                    entries.append(entry)
                setattr(answer, each.name, entries)
                return


def _has_place(struct: type[Struct], version: int) -> bool:
    """Whether a struct, or what is in it, can hold an error."""
    for each in _fields(struct, version):
        kind = _struct_in(each)
        if each.name in _CODES or (kind is not None and _has_place(kind, version)):
            return True
    return False


def _fields(struct: type[Struct], version: int) -> list[Field]:
    return [each for each in fields_of(struct) if version in each.versions]


def _struct_in(field: Field) -> type[Struct] | None:
    """What the elements of a list are, where they are structs."""
    kind = field.wire_type
    return kind.element.struct if isinstance(kind, ArrayOf) and isinstance(kind.element, StructOf) else None


def _entries(asked: Any, version: int) -> list[object]:
    """What a request, or an entry of it, names."""
    key = getattr(asked, "api_key", None)
    if key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        return sorted({each.name for each in (*asked.deletions, *asked.upsertions)})
    if key == ApiKey.ALTER_REPLICA_LOG_DIRS:
        return [topic for directory in asked.dirs for topic in directory.topics]
    for each in _fields(type(asked), version):
        if isinstance(each.wire_type, ArrayOf):
            return list(getattr(asked, each.name) or ())
    return []


def _identify(entry: Any, element: Any, version: int) -> None:
    """Copy what tells an entry from the others: what has the same name, or the first of its kind."""
    fields = [each for each in _fields(type(entry), version) if each.name not in (*_CODES, _WORDS)]
    if isinstance(element, str | int):
        wanted = Sized if isinstance(element, str) else Fixed
        for each in fields:
            if isinstance(each.wire_type, wanted):
                setattr(entry, each.name, element)
                return
        return
    named = {each.name for each in _fields(type(element), version)}
    for each in fields:
        name = each.name if each.name in named else _OTHER_NAMES.get(each.name)
        if name not in named or name not in _IDENTITIES:
            continue
        value = getattr(element, name)
        kind = _struct_in(each)
        if value is None and version not in each.nullable:
            continue
        if kind is None:
            setattr(entry, each.name, value)
        else:
            # The entity that a quota is for.
            copies = [kind() for _ in value]
            for copy, original in zip(copies, value, strict=True):
                _identify(copy, original, version)
            setattr(entry, each.name, copies)
