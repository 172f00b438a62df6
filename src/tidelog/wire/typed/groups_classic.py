# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=False
# mypy: ignore-errors
"""The typed messages of `tidelog.wire.messages.groups_classic`. Written by tools/typed_messages.py; not to be edited."""

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


class HeartbeatRequest(TypedMessage):
    __slots__ = ('group_id', 'generation_id', 'member_id', 'group_instance_id',)
    __struct_fields__ = ('group_id', 'generation_id', 'member_id', 'group_instance_id',)
    api_key = 12
    versions = VersionRange(0, 4)
    flexible = VersionRange(4, 32767)
    listener_kinds = ('broker',)
    latest_version_unstable = False

    def __init__(self, group_id='', generation_id=0, member_id='', group_instance_id=None):
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 4:
            return -1
        flexible = version >= 4
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.group_id = text(data, at, n)
        at += n
        if end - at < 4:
            return -1
        self.generation_id = int32(data, at)
        at += 4
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.member_id = text(data, at, n)
        at += n
        if version >= 3:
            n, at = string_length(data, at, end, flexible)
            if at < 0 or (n < 0 and not (version >= 3)):
                return -1
            if n < 0:
                self.group_instance_id = None
            else:
                self.group_instance_id = text(data, at, n)
                at += n
        if not (version >= 3):
            self.group_instance_id = None
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 4:
            return -1
        flexible = version >= 4
        total = 0
        n = string_size(self.group_id, flexible, False)
        if n < 0:
            return -1
        total += n
        if not fits32(self.generation_id):
            return -1
        total += 4
        n = string_size(self.member_id, flexible, False)
        if n < 0:
            return -1
        total += n
        if version >= 3:
            n = string_size(self.group_instance_id, flexible, version >= 3)
            if n < 0:
                return -1
            total += n
        if not (version >= 3) and self.group_instance_id is not None:
            return -1
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 4
        at = put_string(out, at, self.group_id, flexible)
        put32(out, at, self.generation_id)
        at += 4
        at = put_string(out, at, self.member_id, flexible)
        if version >= 3:
            at = put_string(out, at, self.group_instance_id, flexible)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class HeartbeatResponse(TypedMessage):
    __slots__ = ('throttle_time_ms', 'error_code',)
    __struct_fields__ = ('throttle_time_ms', 'error_code',)
    api_key = 12
    versions = VersionRange(0, 4)
    flexible = VersionRange(4, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, throttle_time_ms=0, error_code=0):
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 4:
            return -1
        flexible = version >= 4
        if version >= 1:
            if end - at < 4:
                return -1
            self.throttle_time_ms = int32(data, at)
            at += 4
        if not (version >= 1):
            self.throttle_time_ms = 0
        if end - at < 2:
            return -1
        self.error_code = int16(data, at)
        at += 2
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 4:
            return -1
        flexible = version >= 4
        total = 0
        if version >= 1:
            if not fits32(self.throttle_time_ms):
                return -1
            total += 4
        if not fits16(self.error_code):
            return -1
        total += 2
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 4
        if version >= 1:
            put32(out, at, self.throttle_time_ms)
            at += 4
        put16(out, at, self.error_code)
        at += 2
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.error_code == 0:
            none += 1
        else:
            errors[self.error_code] += 1
        return none
