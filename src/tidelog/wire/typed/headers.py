# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=False
# mypy: ignore-errors
"""The typed messages of `tidelog.wire.messages.headers`. Written by tools/typed_messages.py; not to be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.typed.message import TypedMessage, copied, described, is_same
from tidelog.wire.versions import VersionRange

if TYPE_CHECKING:
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.fields_inline import (
        fits16,
        fits32,
        int16,
        int32,
        put8,
        put16,
        put32,
        put_string,
        skip_tags,
        string_length,
        string_size,
        text,
    )
else:
    from tidelog.wire.typed.fields import (
        fits16,
        fits32,
        int16,
        int32,
        put8,
        put16,
        put32,
        put_string,
        skip_tags,
        string_length,
        string_size,
        text,
    )


class RequestHeader(TypedMessage):
    __slots__ = ('request_api_key', 'request_api_version', 'correlation_id', 'client_id',)
    __struct_fields__ = ('request_api_key', 'request_api_version', 'correlation_id', 'client_id',)
    api_key = -1
    versions = VersionRange(1, 2)
    flexible = VersionRange(2, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, request_api_key=0, request_api_version=0, correlation_id=0, client_id=''):
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 1 or version > 2:
            return -1
        flexible = version >= 2
        if end - at < 8:
            return -1
        self.request_api_key = int16(data, at)
        self.request_api_version = int16(data, at + 2)
        self.correlation_id = int32(data, at + 4)
        at += 8
        n, at = string_length(data, at, end, False)
        if at < 0:
            return -1
        if n < 0:
            self.client_id = None
        else:
            self.client_id = text(data, at, n)
            at += n
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 1 or version > 2:
            return -1
        flexible = version >= 2
        total = 0
        if not fits16(self.request_api_key) or not fits16(self.request_api_version) or not fits32(self.correlation_id):
            return -1
        total += 8
        n = string_size(self.client_id, False, True)
        if n < 0:
            return -1
        total += n
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 2
        put16(out, at, self.request_api_key)
        put16(out, at + 2, self.request_api_version)
        put32(out, at + 4, self.correlation_id)
        at += 8
        at = put_string(out, at, self.client_id, False)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class ResponseHeader(TypedMessage):
    __slots__ = ('correlation_id',)
    __struct_fields__ = ('correlation_id',)
    api_key = -1
    versions = VersionRange(0, 1)
    flexible = VersionRange(1, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, correlation_id=0):
        self.correlation_id = correlation_id

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 1:
            return -1
        flexible = version >= 1
        if end - at < 4:
            return -1
        self.correlation_id = int32(data, at)
        at += 4
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 1:
            return -1
        flexible = version >= 1
        total = 0
        if not fits32(self.correlation_id):
            return -1
        total += 4
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 1
        put32(out, at, self.correlation_id)
        at += 4
        if flexible:
            put8(out, at, 0)
            at += 1
        return at
