# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=False
# mypy: ignore-errors
"""The typed messages of `tidelog.wire.messages.group_offsets`. Written by tools/typed_messages.py; not to be edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.typed.message import TypedMessage, copied, described, is_same
from tidelog.wire.versions import VersionRange

if TYPE_CHECKING:
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.fields_inline import (
        array_length,
        fits16,
        fits32,
        fits64,
        int16,
        int32,
        int64,
        is_uuid,
        length_bytes,
        put8,
        put16,
        put32,
        put64,
        put_length,
        put_string,
        put_uuid,
        skip_tags,
        string_length,
        string_size,
        text,
        uuid,
    )
else:
    from tidelog.wire.typed.fields import (
        array_length,
        fits16,
        fits32,
        fits64,
        int16,
        int32,
        int64,
        is_uuid,
        length_bytes,
        put8,
        put16,
        put32,
        put64,
        put_length,
        put_string,
        put_uuid,
        skip_tags,
        string_length,
        string_size,
        text,
        uuid,
    )


class OffsetCommitRequestPartition:
    __slots__ = ('partition_index', 'committed_offset', 'committed_leader_epoch', 'committed_metadata',)
    __struct_fields__ = ('partition_index', 'committed_offset', 'committed_leader_epoch', 'committed_metadata',)

    def __init__(self, partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=''):
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 8
        if end - at < 12:
            return -1
        self.partition_index = int32(data, at)
        self.committed_offset = int64(data, at + 4)
        at += 12
        if version >= 6:
            if end - at < 4:
                return -1
            self.committed_leader_epoch = int32(data, at)
            at += 4
        if not (version >= 6):
            self.committed_leader_epoch = -1
        n, at = string_length(data, at, end, flexible)
        if at < 0:
            return -1
        if n < 0:
            self.committed_metadata = None
        else:
            self.committed_metadata = text(data, at, n)
            at += n
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 8
        total = 0
        if not fits32(self.partition_index) or not fits64(self.committed_offset):
            return -1
        total += 12
        if version >= 6:
            if not fits32(self.committed_leader_epoch):
                return -1
            total += 4
        n = string_size(self.committed_metadata, flexible, True)
        if n < 0:
            return -1
        total += n
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 8
        put32(out, at, self.partition_index)
        put64(out, at + 4, self.committed_offset)
        at += 12
        if version >= 6:
            put32(out, at, self.committed_leader_epoch)
            at += 4
        at = put_string(out, at, self.committed_metadata, flexible)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class OffsetCommitRequestTopic:
    __slots__ = ('name', 'topic_id', 'partitions',)
    __struct_fields__ = ('name', 'topic_id', 'partitions',)

    def __init__(self, name='', topic_id=ZERO_UUID, partitions=...):
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 8
        if version <= 9:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.name = text(data, at, n)
            at += n
        if not (version <= 9):
            self.name = ''
        if version >= 10:
            if end - at < 16:
                return -1
            self.topic_id = uuid(data, at)
            at += 16
        if not (version >= 10):
            self.topic_id = ZERO_UUID
        n, at = array_length(data, at, end, flexible, 14)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_OffsetCommitRequestPartition = OffsetCommitRequestPartition.__new__(OffsetCommitRequestPartition)
            at = item_OffsetCommitRequestPartition.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_OffsetCommitRequestPartition)
        self.partitions = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 8
        total = 0
        if version <= 9:
            n = string_size(self.name, flexible, False)
            if n < 0:
                return -1
            total += n
        if version >= 10:
            if not is_uuid(self.topic_id):
                return -1
            total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), flexible)
            for item_OffsetCommitRequestPartition in self.partitions:
                if item_OffsetCommitRequestPartition is None:
                    return -1
                inner = item_OffsetCommitRequestPartition.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 8
        if version <= 9:
            at = put_string(out, at, self.name, flexible)
        if version >= 10:
            put_uuid(out, at, self.topic_id)
            at += 16
        at = put_length(out, at, len(self.partitions), flexible)
        for item_OffsetCommitRequestPartition in self.partitions:
            at = item_OffsetCommitRequestPartition.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class OffsetCommitRequest(TypedMessage):
    __slots__ = ('group_id', 'generation_id_or_member_epoch', 'member_id', 'group_instance_id', 'retention_time_ms', 'topics',)
    __struct_fields__ = ('group_id', 'generation_id_or_member_epoch', 'member_id', 'group_instance_id', 'retention_time_ms', 'topics',)
    api_key = 8
    versions = VersionRange(2, 10)
    flexible = VersionRange(8, 32767)
    listener_kinds = ('broker',)
    latest_version_unstable = False

    def __init__(self, group_id='', generation_id_or_member_epoch=-1, member_id='', group_instance_id=None, retention_time_ms=-1, topics=...):
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is ... else topics

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 2 or version > 10:
            return -1
        flexible = version >= 8
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.group_id = text(data, at, n)
        at += n
        if end - at < 4:
            return -1
        self.generation_id_or_member_epoch = int32(data, at)
        at += 4
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.member_id = text(data, at, n)
        at += n
        if version >= 7:
            n, at = string_length(data, at, end, flexible)
            if at < 0 or (n < 0 and not (version >= 7)):
                return -1
            if n < 0:
                self.group_instance_id = None
            else:
                self.group_instance_id = text(data, at, n)
                at += n
        if not (version >= 7):
            self.group_instance_id = None
        if version <= 4:
            if end - at < 8:
                return -1
            self.retention_time_ms = int64(data, at)
            at += 8
        if not (version <= 4):
            self.retention_time_ms = -1
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_OffsetCommitRequestTopic = OffsetCommitRequestTopic.__new__(OffsetCommitRequestTopic)
            at = item_OffsetCommitRequestTopic.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_OffsetCommitRequestTopic)
        self.topics = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 2 or version > 10:
            return -1
        flexible = version >= 8
        total = 0
        n = string_size(self.group_id, flexible, False)
        if n < 0:
            return -1
        total += n
        if not fits32(self.generation_id_or_member_epoch):
            return -1
        total += 4
        n = string_size(self.member_id, flexible, False)
        if n < 0:
            return -1
        total += n
        if version >= 7:
            n = string_size(self.group_instance_id, flexible, version >= 7)
            if n < 0:
                return -1
            total += n
        if not (version >= 7) and self.group_instance_id is not None:
            return -1
        if version <= 4:
            if not fits64(self.retention_time_ms):
                return -1
            total += 8
        if self.topics is None:
            return -1
        else:
            total += length_bytes(len(self.topics), flexible)
            for item_OffsetCommitRequestTopic in self.topics:
                if item_OffsetCommitRequestTopic is None:
                    return -1
                inner = item_OffsetCommitRequestTopic.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 8
        at = put_string(out, at, self.group_id, flexible)
        put32(out, at, self.generation_id_or_member_epoch)
        at += 4
        at = put_string(out, at, self.member_id, flexible)
        if version >= 7:
            at = put_string(out, at, self.group_instance_id, flexible)
        if version <= 4:
            put64(out, at, self.retention_time_ms)
            at += 8
        at = put_length(out, at, len(self.topics), flexible)
        for item_OffsetCommitRequestTopic in self.topics:
            at = item_OffsetCommitRequestTopic.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class OffsetCommitResponsePartition:
    __slots__ = ('partition_index', 'error_code',)
    __struct_fields__ = ('partition_index', 'error_code',)

    def __init__(self, partition_index=0, error_code=0):
        self.partition_index = partition_index
        self.error_code = error_code

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 8
        if end - at < 6:
            return -1
        self.partition_index = int32(data, at)
        self.error_code = int16(data, at + 4)
        at += 6
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 8
        total = 0
        if not fits32(self.partition_index) or not fits16(self.error_code):
            return -1
        total += 6
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 8
        put32(out, at, self.partition_index)
        put16(out, at + 4, self.error_code)
        at += 6
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


class OffsetCommitResponseTopic:
    __slots__ = ('name', 'topic_id', 'partitions',)
    __struct_fields__ = ('name', 'topic_id', 'partitions',)

    def __init__(self, name='', topic_id=ZERO_UUID, partitions=...):
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 8
        if version <= 9:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.name = text(data, at, n)
            at += n
        if not (version <= 9):
            self.name = ''
        if version >= 10:
            if end - at < 16:
                return -1
            self.topic_id = uuid(data, at)
            at += 16
        if not (version >= 10):
            self.topic_id = ZERO_UUID
        n, at = array_length(data, at, end, flexible, 6)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_OffsetCommitResponsePartition = OffsetCommitResponsePartition.__new__(OffsetCommitResponsePartition)
            at = item_OffsetCommitResponsePartition.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_OffsetCommitResponsePartition)
        self.partitions = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 8
        total = 0
        if version <= 9:
            n = string_size(self.name, flexible, False)
            if n < 0:
                return -1
            total += n
        if version >= 10:
            if not is_uuid(self.topic_id):
                return -1
            total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), flexible)
            for item_OffsetCommitResponsePartition in self.partitions:
                if item_OffsetCommitResponsePartition is None:
                    return -1
                inner = item_OffsetCommitResponsePartition.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 8
        if version <= 9:
            at = put_string(out, at, self.name, flexible)
        if version >= 10:
            put_uuid(out, at, self.topic_id)
            at += 16
        at = put_length(out, at, len(self.partitions), flexible)
        for item_OffsetCommitResponsePartition in self.partitions:
            at = item_OffsetCommitResponsePartition.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.partitions is not None:
            for item_OffsetCommitResponsePartition in self.partitions:
                none += item_OffsetCommitResponsePartition.count_errors(errors)
        return none


class OffsetCommitResponse(TypedMessage):
    __slots__ = ('throttle_time_ms', 'topics',)
    __struct_fields__ = ('throttle_time_ms', 'topics',)
    api_key = 8
    versions = VersionRange(2, 10)
    flexible = VersionRange(8, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, throttle_time_ms=0, topics=...):
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ... else topics

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 2 or version > 10:
            return -1
        flexible = version >= 8
        if version >= 3:
            if end - at < 4:
                return -1
            self.throttle_time_ms = int32(data, at)
            at += 4
        if not (version >= 3):
            self.throttle_time_ms = 0
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_OffsetCommitResponseTopic = OffsetCommitResponseTopic.__new__(OffsetCommitResponseTopic)
            at = item_OffsetCommitResponseTopic.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_OffsetCommitResponseTopic)
        self.topics = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 2 or version > 10:
            return -1
        flexible = version >= 8
        total = 0
        if version >= 3:
            if not fits32(self.throttle_time_ms):
                return -1
            total += 4
        if self.topics is None:
            return -1
        else:
            total += length_bytes(len(self.topics), flexible)
            for item_OffsetCommitResponseTopic in self.topics:
                if item_OffsetCommitResponseTopic is None:
                    return -1
                inner = item_OffsetCommitResponseTopic.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 8
        if version >= 3:
            put32(out, at, self.throttle_time_ms)
            at += 4
        at = put_length(out, at, len(self.topics), flexible)
        for item_OffsetCommitResponseTopic in self.topics:
            at = item_OffsetCommitResponseTopic.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.topics is not None:
            for item_OffsetCommitResponseTopic in self.topics:
                none += item_OffsetCommitResponseTopic.count_errors(errors)
        return none
