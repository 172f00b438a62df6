# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=False
# mypy: ignore-errors
"""The typed messages of `tidelog.wire.messages.fetch`. Written by tools/typed_messages.py; not to be edited."""

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
        all_fit32,
        array_length,
        bytes_length,
        fits8,
        fits16,
        fits32,
        fits64,
        int8,
        int16,
        int32,
        int32_list,
        int64,
        is_uuid,
        length_bytes,
        put8,
        put16,
        put32,
        put64,
        put_bytes,
        put_int32_list,
        put_length,
        put_string,
        put_uuid,
        put_uvarint,
        skip_tags,
        string_length,
        string_size,
        tag_at,
        tag_count,
        text,
        uuid,
        uvarint_bytes,
    )
    from cython.cimports.tidelog.wire.typed.message import is_copied, records_bytes, view_of
else:
    from tidelog.wire.typed.fields import (
        all_fit32,
        array_length,
        bytes_length,
        fits8,
        fits16,
        fits32,
        fits64,
        int8,
        int16,
        int32,
        int32_list,
        int64,
        is_uuid,
        length_bytes,
        put8,
        put16,
        put32,
        put64,
        put_bytes,
        put_int32_list,
        put_length,
        put_string,
        put_uuid,
        put_uvarint,
        skip_tags,
        string_length,
        string_size,
        tag_at,
        tag_count,
        text,
        uuid,
        uvarint_bytes,
    )
    from tidelog.wire.typed.message import is_copied, records_bytes, view_of


class ReplicaState:
    __slots__ = ('replica_id', 'replica_epoch',)
    __struct_fields__ = ('replica_id', 'replica_epoch',)

    def __init__(self, replica_id=-1, replica_epoch=-1):
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 12
        if end - at < 12:
            return -1
        self.replica_id = int32(data, at)
        self.replica_epoch = int64(data, at + 4)
        at += 12
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 12
        total = 0
        if not fits32(self.replica_id) or not fits64(self.replica_epoch):
            return -1
        total += 12
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 12
        put32(out, at, self.replica_id)
        put64(out, at + 4, self.replica_epoch)
        at += 12
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def is_default(self):
        return not (self.replica_id != -1 or self.replica_epoch != -1)


class FetchPartition:
    __slots__ = ('partition', 'current_leader_epoch', 'fetch_offset', 'last_fetched_epoch', 'log_start_offset', 'partition_max_bytes', 'replica_directory_id', 'high_watermark',)
    __struct_fields__ = ('partition', 'current_leader_epoch', 'fetch_offset', 'last_fetched_epoch', 'log_start_offset', 'partition_max_bytes', 'replica_directory_id', 'high_watermark',)

    def __init__(self, partition=0, current_leader_epoch=-1, fetch_offset=0, last_fetched_epoch=-1, log_start_offset=-1, partition_max_bytes=0, replica_directory_id=ZERO_UUID, high_watermark=9223372036854775807):
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 12
        if end - at < 4:
            return -1
        self.partition = int32(data, at)
        at += 4
        if version >= 9:
            if end - at < 4:
                return -1
            self.current_leader_epoch = int32(data, at)
            at += 4
        if not (version >= 9):
            self.current_leader_epoch = -1
        if end - at < 8:
            return -1
        self.fetch_offset = int64(data, at)
        at += 8
        if version >= 12:
            if end - at < 4:
                return -1
            self.last_fetched_epoch = int32(data, at)
            at += 4
        if not (version >= 12):
            self.last_fetched_epoch = -1
        if version >= 5:
            if end - at < 8:
                return -1
            self.log_start_offset = int64(data, at)
            at += 8
        if not (version >= 5):
            self.log_start_offset = -1
        if end - at < 4:
            return -1
        self.partition_max_bytes = int32(data, at)
        at += 4
        self.replica_directory_id = ZERO_UUID
        self.high_watermark = 9223372036854775807
        if flexible:
            if at < end and data[at] == 0:
                at += 1
            else:
                at = self.read_tags(data, at, end, version)
        return at

    def read_tags(self, data, at, end, version):
        flexible = version >= 12
        count, at = tag_count(data, at, end)
        if at < 0:
            return -1
        last = -1
        while count > 0:
            count -= 1
            tag, at, stop = tag_at(data, at, end, last)
            if at < 0:
                return -1
            last = tag
            if tag == 0 and version >= 17:
                if end - at < 16:
                    return -1
                self.replica_directory_id = uuid(data, at)
                at += 16
                if at != stop:
                    return -1
            if tag == 1 and version >= 18:
                if end - at < 8:
                    return -1
                self.high_watermark = int64(data, at)
                at += 8
                if at != stop:
                    return -1
            at = stop
        return at

    def size(self, version):
        flexible = version >= 12
        total = 0
        if not fits32(self.partition):
            return -1
        total += 4
        if version >= 9:
            if not fits32(self.current_leader_epoch):
                return -1
            total += 4
        if not fits64(self.fetch_offset):
            return -1
        total += 8
        if version >= 12:
            if not fits32(self.last_fetched_epoch):
                return -1
            total += 4
        if not (version >= 12) and self.last_fetched_epoch != -1:
            return -1
        if version >= 5:
            if not fits64(self.log_start_offset):
                return -1
            total += 8
        if not fits32(self.partition_max_bytes):
            return -1
        total += 4
        if flexible:
            total += 1
            if version >= 17 and self.replica_directory_id != ZERO_UUID:
                inner = 16 if is_uuid(self.replica_directory_id) else -1
                if inner < 0:
                    return -1
                total += 1 + uvarint_bytes(inner) + inner
            if version >= 18 and self.high_watermark != 9223372036854775807:
                inner = 8 if fits64(self.high_watermark) else -1
                if inner < 0:
                    return -1
                total += 1 + uvarint_bytes(inner) + inner
        return total

    def write(self, out, at, version):
        flexible = version >= 12
        put32(out, at, self.partition)
        at += 4
        if version >= 9:
            put32(out, at, self.current_leader_epoch)
            at += 4
        put64(out, at, self.fetch_offset)
        at += 8
        if version >= 12:
            put32(out, at, self.last_fetched_epoch)
            at += 4
        if version >= 5:
            put64(out, at, self.log_start_offset)
            at += 8
        put32(out, at, self.partition_max_bytes)
        at += 4
        if flexible:
            n = 0
            if version >= 17 and self.replica_directory_id != ZERO_UUID:
                n += 1
            if version >= 18 and self.high_watermark != 9223372036854775807:
                n += 1
            put8(out, at, n)
            at += 1
            if n:
                if version >= 17 and self.replica_directory_id != ZERO_UUID:
                    inner = 16 if is_uuid(self.replica_directory_id) else -1
                    at = put_uvarint(out, at, 0)
                    at = put_uvarint(out, at, inner)
                    put_uuid(out, at, self.replica_directory_id)
                    at += 16
                if version >= 18 and self.high_watermark != 9223372036854775807:
                    inner = 8 if fits64(self.high_watermark) else -1
                    at = put_uvarint(out, at, 1)
                    at = put_uvarint(out, at, inner)
                    put64(out, at, self.high_watermark)
                    at += 8
        return at


class FetchTopic:
    __slots__ = ('topic', 'topic_id', 'partitions',)
    __struct_fields__ = ('topic', 'topic_id', 'partitions',)

    def __init__(self, topic='', topic_id=ZERO_UUID, partitions=...):
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 12
        if version <= 12:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.topic = text(data, at, n)
            at += n
        if not (version <= 12):
            self.topic = ''
        if version >= 13:
            if end - at < 16:
                return -1
            self.topic_id = uuid(data, at)
            at += 16
        if not (version >= 13):
            self.topic_id = ZERO_UUID
        n, at = array_length(data, at, end, flexible, 16)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_FetchPartition = FetchPartition.__new__(FetchPartition)
            at = item_FetchPartition.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_FetchPartition)
        self.partitions = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 12
        total = 0
        if version <= 12:
            n = string_size(self.topic, flexible, False)
            if n < 0:
                return -1
            total += n
        if version >= 13:
            if not is_uuid(self.topic_id):
                return -1
            total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), flexible)
            for item_FetchPartition in self.partitions:
                if item_FetchPartition is None:
                    return -1
                inner = item_FetchPartition.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 12
        if version <= 12:
            at = put_string(out, at, self.topic, flexible)
        if version >= 13:
            put_uuid(out, at, self.topic_id)
            at += 16
        at = put_length(out, at, len(self.partitions), flexible)
        for item_FetchPartition in self.partitions:
            at = item_FetchPartition.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class ForgottenTopic:
    __slots__ = ('topic', 'topic_id', 'partitions',)
    __struct_fields__ = ('topic', 'topic_id', 'partitions',)

    def __init__(self, topic='', topic_id=ZERO_UUID, partitions=...):
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 12
        if version <= 12:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.topic = text(data, at, n)
            at += n
        if not (version <= 12):
            self.topic = ''
        if version >= 13:
            if end - at < 16:
                return -1
            self.topic_id = uuid(data, at)
            at += 16
        if not (version >= 13):
            self.topic_id = ZERO_UUID
        n, at = array_length(data, at, end, flexible, 4)
        if n < 0:
            return -1
        self.partitions = int32_list(data, at, n)
        at += 4 * n
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 12
        total = 0
        if version <= 12:
            n = string_size(self.topic, flexible, False)
            if n < 0:
                return -1
            total += n
        if version >= 13:
            if not is_uuid(self.topic_id):
                return -1
            total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), flexible)
            if not all_fit32(self.partitions):
                return -1
            total += 4 * len(self.partitions)
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 12
        if version <= 12:
            at = put_string(out, at, self.topic, flexible)
        if version >= 13:
            put_uuid(out, at, self.topic_id)
            at += 16
        at = put_length(out, at, len(self.partitions), flexible)
        at = put_int32_list(out, at, self.partitions)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class FetchRequest(TypedMessage):
    __slots__ = ('cluster_id', 'replica_id', '_replica_state', 'max_wait_ms', 'min_bytes', 'max_bytes', 'isolation_level', 'session_id', 'session_epoch', 'topics', 'forgotten_topics_data', 'rack_id',)
    __struct_fields__ = ('cluster_id', 'replica_id', 'replica_state', 'max_wait_ms', 'min_bytes', 'max_bytes', 'isolation_level', 'session_id', 'session_epoch', 'topics', 'forgotten_topics_data', 'rack_id',)
    api_key = 1
    versions = VersionRange(4, 18)
    flexible = VersionRange(12, 32767)
    listener_kinds = ('broker', 'controller')
    latest_version_unstable = False

    def __init__(self, cluster_id=None, replica_id=-1, replica_state=None, max_wait_ms=0, min_bytes=0, max_bytes=2147483647, isolation_level=0, session_id=0, session_epoch=-1, topics=..., forgotten_topics_data=..., rack_id=''):
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self._replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = [] if topics is ... else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is ... else forgotten_topics_data
        self.rack_id = rack_id

    @property
    def replica_state(self):
        if self._replica_state is None:
            self._replica_state = ReplicaState()
        return self._replica_state

    @replica_state.setter
    def replica_state(self, value):
        self._replica_state = value

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 4 or version > 18:
            return -1
        flexible = version >= 12
        if version <= 14:
            if end - at < 4:
                return -1
            self.replica_id = int32(data, at)
            at += 4
        if not (version <= 14):
            self.replica_id = -1
        if end - at < 13:
            return -1
        self.max_wait_ms = int32(data, at)
        self.min_bytes = int32(data, at + 4)
        self.max_bytes = int32(data, at + 8)
        self.isolation_level = int8(data, at + 12)
        at += 13
        if version >= 7:
            if end - at < 8:
                return -1
            self.session_id = int32(data, at)
            self.session_epoch = int32(data, at + 4)
            at += 8
        if not (version >= 7):
            self.session_id = 0
            self.session_epoch = -1
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_FetchTopic = FetchTopic.__new__(FetchTopic)
            at = item_FetchTopic.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_FetchTopic)
        self.topics = items
        if version >= 7:
            n, at = array_length(data, at, end, flexible, 3)
            if n < 0:
                return -1
            items = []
            while n > 0:
                n -= 1
                item_ForgottenTopic = ForgottenTopic.__new__(ForgottenTopic)
                at = item_ForgottenTopic.read(data, at, end, version)
                if at < 0:
                    return -1
                items.append(item_ForgottenTopic)
            self.forgotten_topics_data = items
        if not (version >= 7):
            self.forgotten_topics_data = []
        if version >= 11:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.rack_id = text(data, at, n)
            at += n
        if not (version >= 11):
            self.rack_id = ''
        self.cluster_id = None
        self._replica_state = None
        if flexible:
            if at < end and data[at] == 0:
                at += 1
            else:
                at = self.read_tags(data, at, end, version)
        return at

    def read_tags(self, data, at, end, version):
        flexible = version >= 12
        count, at = tag_count(data, at, end)
        if at < 0:
            return -1
        last = -1
        while count > 0:
            count -= 1
            tag, at, stop = tag_at(data, at, end, last)
            if at < 0:
                return -1
            last = tag
            if tag == 0 and version >= 12:
                n, at = string_length(data, at, end, flexible)
                if at < 0 or (n < 0 and not (version >= 12)):
                    return -1
                if n < 0:
                    self.cluster_id = None
                else:
                    self.cluster_id = text(data, at, n)
                    at += n
                if at != stop:
                    return -1
            if tag == 1 and version >= 15:
                item_ReplicaState = ReplicaState.__new__(ReplicaState)
                at = item_ReplicaState.read(data, at, end, version)
                if at < 0:
                    return -1
                self._replica_state = item_ReplicaState
                if at != stop:
                    return -1
            at = stop
        return at

    def size(self, version, copied_max):
        if version < 4 or version > 18:
            return -1
        flexible = version >= 12
        total = 0
        if version <= 14:
            if not fits32(self.replica_id):
                return -1
            total += 4
        if not (version <= 14) and self.replica_id != -1:
            return -1
        if not fits32(self.max_wait_ms) or not fits32(self.min_bytes) or not fits32(self.max_bytes) or not fits8(self.isolation_level):
            return -1
        total += 13
        if version >= 7:
            if not fits32(self.session_id) or not fits32(self.session_epoch):
                return -1
            total += 8
        if self.topics is None:
            return -1
        else:
            total += length_bytes(len(self.topics), flexible)
            for item_FetchTopic in self.topics:
                if item_FetchTopic is None:
                    return -1
                inner = item_FetchTopic.size(version)
                if inner < 0:
                    return -1
                total += inner
        if version >= 7:
            if self.forgotten_topics_data is None:
                return -1
            else:
                total += length_bytes(len(self.forgotten_topics_data), flexible)
                for item_ForgottenTopic in self.forgotten_topics_data:
                    if item_ForgottenTopic is None:
                        return -1
                    inner = item_ForgottenTopic.size(version)
                    if inner < 0:
                        return -1
                    total += inner
        if not (version >= 7) and self.forgotten_topics_data != []:
            return -1
        if version >= 11:
            n = string_size(self.rack_id, flexible, False)
            if n < 0:
                return -1
            total += n
        if flexible:
            total += 1
            if version >= 12 and self.cluster_id is not None:
                inner = string_size(self.cluster_id, True, True)
                if inner < 0:
                    return -1
                total += 1 + uvarint_bytes(inner) + inner
            if version >= 15 and (self._replica_state is not None and not self._replica_state.is_default()):
                inner = self._replica_state.size(version)
                if inner < 0:
                    return -1
                total += 1 + uvarint_bytes(inner) + inner
        if (not (version >= 15)) and (self._replica_state is not None and not self._replica_state.is_default()):
            return -1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 12
        if version <= 14:
            put32(out, at, self.replica_id)
            at += 4
        put32(out, at, self.max_wait_ms)
        put32(out, at + 4, self.min_bytes)
        put32(out, at + 8, self.max_bytes)
        put8(out, at + 12, self.isolation_level)
        at += 13
        if version >= 7:
            put32(out, at, self.session_id)
            put32(out, at + 4, self.session_epoch)
            at += 8
        at = put_length(out, at, len(self.topics), flexible)
        for item_FetchTopic in self.topics:
            at = item_FetchTopic.write(out, at, version)
        if version >= 7:
            at = put_length(out, at, len(self.forgotten_topics_data), flexible)
            for item_ForgottenTopic in self.forgotten_topics_data:
                at = item_ForgottenTopic.write(out, at, version)
        if version >= 11:
            at = put_string(out, at, self.rack_id, flexible)
        if flexible:
            n = 0
            if version >= 12 and self.cluster_id is not None:
                n += 1
            if version >= 15 and (self._replica_state is not None and not self._replica_state.is_default()):
                n += 1
            put8(out, at, n)
            at += 1
            if n:
                if version >= 12 and self.cluster_id is not None:
                    inner = string_size(self.cluster_id, True, True)
                    at = put_uvarint(out, at, 0)
                    at = put_uvarint(out, at, inner)
                    at = put_string(out, at, self.cluster_id, flexible)
                if version >= 15 and (self._replica_state is not None and not self._replica_state.is_default()):
                    inner = self._replica_state.size(version)
                    at = put_uvarint(out, at, 1)
                    at = put_uvarint(out, at, inner)
                    at = self._replica_state.write(out, at, version)
        return at


class EpochEndOffset:
    __slots__ = ('epoch', 'end_offset',)
    __struct_fields__ = ('epoch', 'end_offset',)

    def __init__(self, epoch=-1, end_offset=-1):
        self.epoch = epoch
        self.end_offset = end_offset

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 12
        if end - at < 12:
            return -1
        self.epoch = int32(data, at)
        self.end_offset = int64(data, at + 4)
        at += 12
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 12
        total = 0
        if not fits32(self.epoch) or not fits64(self.end_offset):
            return -1
        total += 12
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 12
        put32(out, at, self.epoch)
        put64(out, at + 4, self.end_offset)
        at += 12
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def is_default(self):
        return not (self.epoch != -1 or self.end_offset != -1)


class LeaderIdAndEpoch:
    __slots__ = ('leader_id', 'leader_epoch',)
    __struct_fields__ = ('leader_id', 'leader_epoch',)

    def __init__(self, leader_id=-1, leader_epoch=-1):
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 12
        if end - at < 8:
            return -1
        self.leader_id = int32(data, at)
        self.leader_epoch = int32(data, at + 4)
        at += 8
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 12
        total = 0
        if not fits32(self.leader_id) or not fits32(self.leader_epoch):
            return -1
        total += 8
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 12
        put32(out, at, self.leader_id)
        put32(out, at + 4, self.leader_epoch)
        at += 8
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def is_default(self):
        return not (self.leader_id != -1 or self.leader_epoch != -1)


class SnapshotId:
    __slots__ = ('end_offset', 'epoch',)
    __struct_fields__ = ('end_offset', 'epoch',)

    def __init__(self, end_offset=-1, epoch=-1):
        self.end_offset = end_offset
        self.epoch = epoch

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 12
        if end - at < 12:
            return -1
        self.end_offset = int64(data, at)
        self.epoch = int32(data, at + 8)
        at += 12
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 12
        total = 0
        if not fits64(self.end_offset) or not fits32(self.epoch):
            return -1
        total += 12
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 12
        put64(out, at, self.end_offset)
        put32(out, at + 8, self.epoch)
        at += 12
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def is_default(self):
        return not (self.end_offset != -1 or self.epoch != -1)


class AbortedTransaction:
    __slots__ = ('producer_id', 'first_offset',)
    __struct_fields__ = ('producer_id', 'first_offset',)

    def __init__(self, producer_id=0, first_offset=0):
        self.producer_id = producer_id
        self.first_offset = first_offset

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 12
        if end - at < 16:
            return -1
        self.producer_id = int64(data, at)
        self.first_offset = int64(data, at + 8)
        at += 16
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 12
        total = 0
        if not fits64(self.producer_id) or not fits64(self.first_offset):
            return -1
        total += 16
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 12
        put64(out, at, self.producer_id)
        put64(out, at + 8, self.first_offset)
        at += 16
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class PartitionData:
    __slots__ = ('partition_index', 'error_code', 'high_watermark', 'last_stable_offset', 'log_start_offset', '_diverging_epoch', '_current_leader', '_snapshot_id', 'aborted_transactions', 'preferred_read_replica', '_records', '_records_in', '_records_at', '_records_end',)
    __struct_fields__ = ('partition_index', 'error_code', 'high_watermark', 'last_stable_offset', 'log_start_offset', 'diverging_epoch', 'current_leader', 'snapshot_id', 'aborted_transactions', 'preferred_read_replica', 'records',)

    def __init__(self, partition_index=0, error_code=0, high_watermark=0, last_stable_offset=-1, log_start_offset=-1, diverging_epoch=None, current_leader=None, snapshot_id=None, aborted_transactions=..., preferred_read_replica=-1, records=None):
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self._diverging_epoch = diverging_epoch
        self._current_leader = current_leader
        self._snapshot_id = snapshot_id
        self.aborted_transactions = [] if aborted_transactions is ... else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self._records = records
        self._records_in = None
        self._records_at = self._records_end = 0

    @property
    def diverging_epoch(self):
        if self._diverging_epoch is None:
            self._diverging_epoch = EpochEndOffset()
        return self._diverging_epoch

    @diverging_epoch.setter
    def diverging_epoch(self, value):
        self._diverging_epoch = value

    @property
    def current_leader(self):
        if self._current_leader is None:
            self._current_leader = LeaderIdAndEpoch()
        return self._current_leader

    @current_leader.setter
    def current_leader(self, value):
        self._current_leader = value

    @property
    def snapshot_id(self):
        if self._snapshot_id is None:
            self._snapshot_id = SnapshotId()
        return self._snapshot_id

    @snapshot_id.setter
    def snapshot_id(self, value):
        self._snapshot_id = value

    @property
    def records(self):
        return self.get_records()

    @records.setter
    def records(self, value):
        self._records = value
        self._records_in = None
        self._records_at = self._records_end = 0

    def get_records(self):
        if self._records_in is not None:
            self._records = view_of(self._records_in, self._records_at, self._records_end)
            self._records_in = None
        return self._records

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        flexible = version >= 12
        if end - at < 22:
            return -1
        self.partition_index = int32(data, at)
        self.error_code = int16(data, at + 4)
        self.high_watermark = int64(data, at + 6)
        self.last_stable_offset = int64(data, at + 14)
        at += 22
        if version >= 5:
            if end - at < 8:
                return -1
            self.log_start_offset = int64(data, at)
            at += 8
        if not (version >= 5):
            self.log_start_offset = -1
        n, at = array_length(data, at, end, flexible, 16)
        if at < 0:
            return -1
        if n < 0:
            self.aborted_transactions = None
        else:
            items = []
            while n > 0:
                n -= 1
                item_AbortedTransaction = AbortedTransaction.__new__(AbortedTransaction)
                at = item_AbortedTransaction.read(data, at, end, version)
                if at < 0:
                    return -1
                items.append(item_AbortedTransaction)
            self.aborted_transactions = items
        if version >= 11:
            if end - at < 4:
                return -1
            self.preferred_read_replica = int32(data, at)
            at += 4
        if not (version >= 11):
            self.preferred_read_replica = -1
        n, at = bytes_length(data, at, end, flexible)
        if at < 0:
            return -1
        self._records = None
        if n < 0:
            self._records = None
            self._records_in = None
            self._records_at = self._records_end = 0
        else:
            self._records_in = frame
            self._records_at = at
            self._records_end = at + n
            at += n
        self._diverging_epoch = None
        self._current_leader = None
        self._snapshot_id = None
        if flexible:
            if at < end and data[at] == 0:
                at += 1
            else:
                at = self.read_tags(data, at, end, version)
        return at

    def read_tags(self, data, at, end, version):
        flexible = version >= 12
        count, at = tag_count(data, at, end)
        if at < 0:
            return -1
        last = -1
        while count > 0:
            count -= 1
            tag, at, stop = tag_at(data, at, end, last)
            if at < 0:
                return -1
            last = tag
            if tag == 0 and version >= 12:
                item_EpochEndOffset = EpochEndOffset.__new__(EpochEndOffset)
                at = item_EpochEndOffset.read(data, at, end, version)
                if at < 0:
                    return -1
                self._diverging_epoch = item_EpochEndOffset
                if at != stop:
                    return -1
            if tag == 1 and version >= 12:
                item_LeaderIdAndEpoch = LeaderIdAndEpoch.__new__(LeaderIdAndEpoch)
                at = item_LeaderIdAndEpoch.read(data, at, end, version)
                if at < 0:
                    return -1
                self._current_leader = item_LeaderIdAndEpoch
                if at != stop:
                    return -1
            if tag == 2 and version >= 12:
                item_SnapshotId = SnapshotId.__new__(SnapshotId)
                at = item_SnapshotId.read(data, at, end, version)
                if at < 0:
                    return -1
                self._snapshot_id = item_SnapshotId
                if at != stop:
                    return -1
            at = stop
        return at

    def size(self, version, copied_max):
        flexible = version >= 12
        total = 0
        if not fits32(self.partition_index) or not fits16(self.error_code) or not fits64(self.high_watermark) or not fits64(self.last_stable_offset):
            return -1
        total += 22
        if version >= 5:
            if not fits64(self.log_start_offset):
                return -1
            total += 8
        if self.aborted_transactions is None:
            total += length_bytes(-1, flexible)
        else:
            total += length_bytes(len(self.aborted_transactions), flexible)
            for item_AbortedTransaction in self.aborted_transactions:
                if item_AbortedTransaction is None:
                    return -1
                inner = item_AbortedTransaction.size(version)
                if inner < 0:
                    return -1
                total += inner
        if version >= 11:
            if not fits32(self.preferred_read_replica):
                return -1
            total += 4
        if not (version >= 11) and self.preferred_read_replica != -1:
            return -1
        if self.get_records() is None:
            total += length_bytes(-1, flexible)
        else:
            n = records_bytes(self._records)
            total += length_bytes(n, flexible)
            if is_copied(self._records, n, copied_max):
                total += n
        if flexible:
            total += 1
            if version >= 12 and (self._diverging_epoch is not None and not self._diverging_epoch.is_default()):
                inner = self._diverging_epoch.size(version)
                if inner < 0:
                    return -1
                total += 1 + uvarint_bytes(inner) + inner
            if version >= 12 and (self._current_leader is not None and not self._current_leader.is_default()):
                inner = self._current_leader.size(version)
                if inner < 0:
                    return -1
                total += 1 + uvarint_bytes(inner) + inner
            if version >= 12 and (self._snapshot_id is not None and not self._snapshot_id.is_default()):
                inner = self._snapshot_id.size(version)
                if inner < 0:
                    return -1
                total += 1 + uvarint_bytes(inner) + inner
        if (not (version >= 12)) and (self._diverging_epoch is not None and not self._diverging_epoch.is_default()):
            return -1
        if (not (version >= 12)) and (self._current_leader is not None and not self._current_leader.is_default()):
            return -1
        if (not (version >= 12)) and (self._snapshot_id is not None and not self._snapshot_id.is_default()):
            return -1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 12
        put32(out, at, self.partition_index)
        put16(out, at + 4, self.error_code)
        put64(out, at + 6, self.high_watermark)
        put64(out, at + 14, self.last_stable_offset)
        at += 22
        if version >= 5:
            put64(out, at, self.log_start_offset)
            at += 8
        if self.aborted_transactions is None:
            at = put_length(out, at, -1, flexible)
        else:
            at = put_length(out, at, len(self.aborted_transactions), flexible)
            for item_AbortedTransaction in self.aborted_transactions:
                at = item_AbortedTransaction.write(out, at, version)
        if version >= 11:
            put32(out, at, self.preferred_read_replica)
            at += 4
        if self._records is None:
            at = put_length(out, at, -1, flexible)
        else:
            n = records_bytes(self._records)
            at = put_length(out, at, n, flexible)
            if is_copied(self._records, n, copied_max):
                at = put_bytes(out, at, self._records)
            else:
                cuts.append(at)
                cuts.append(self._records)
        if flexible:
            n = 0
            if version >= 12 and (self._diverging_epoch is not None and not self._diverging_epoch.is_default()):
                n += 1
            if version >= 12 and (self._current_leader is not None and not self._current_leader.is_default()):
                n += 1
            if version >= 12 and (self._snapshot_id is not None and not self._snapshot_id.is_default()):
                n += 1
            put8(out, at, n)
            at += 1
            if n:
                if version >= 12 and (self._diverging_epoch is not None and not self._diverging_epoch.is_default()):
                    inner = self._diverging_epoch.size(version)
                    at = put_uvarint(out, at, 0)
                    at = put_uvarint(out, at, inner)
                    at = self._diverging_epoch.write(out, at, version)
                if version >= 12 and (self._current_leader is not None and not self._current_leader.is_default()):
                    inner = self._current_leader.size(version)
                    at = put_uvarint(out, at, 1)
                    at = put_uvarint(out, at, inner)
                    at = self._current_leader.write(out, at, version)
                if version >= 12 and (self._snapshot_id is not None and not self._snapshot_id.is_default()):
                    inner = self._snapshot_id.size(version)
                    at = put_uvarint(out, at, 2)
                    at = put_uvarint(out, at, inner)
                    at = self._snapshot_id.write(out, at, version)
        return at

    def count_errors(self, errors):
        none = 0
        if self.error_code == 0:
            none += 1
        else:
            errors[self.error_code] += 1
        return none


class FetchableTopicResponse:
    __slots__ = ('topic', 'topic_id', 'partitions',)
    __struct_fields__ = ('topic', 'topic_id', 'partitions',)

    def __init__(self, topic='', topic_id=ZERO_UUID, partitions=...):
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        flexible = version >= 12
        if version <= 12:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.topic = text(data, at, n)
            at += n
        if not (version <= 12):
            self.topic = ''
        if version >= 13:
            if end - at < 16:
                return -1
            self.topic_id = uuid(data, at)
            at += 16
        if not (version >= 13):
            self.topic_id = ZERO_UUID
        n, at = array_length(data, at, end, flexible, 30)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_PartitionData = PartitionData.__new__(PartitionData)
            at = item_PartitionData.read(data, at, end, version, frame)
            if at < 0:
                return -1
            items.append(item_PartitionData)
        self.partitions = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        flexible = version >= 12
        total = 0
        if version <= 12:
            n = string_size(self.topic, flexible, False)
            if n < 0:
                return -1
            total += n
        if version >= 13:
            if not is_uuid(self.topic_id):
                return -1
            total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), flexible)
            for item_PartitionData in self.partitions:
                if item_PartitionData is None:
                    return -1
                inner = item_PartitionData.size(version, copied_max)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 12
        if version <= 12:
            at = put_string(out, at, self.topic, flexible)
        if version >= 13:
            put_uuid(out, at, self.topic_id)
            at += 16
        at = put_length(out, at, len(self.partitions), flexible)
        for item_PartitionData in self.partitions:
            at = item_PartitionData.write(out, at, version, copied_max, cuts)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.partitions is not None:
            for item_PartitionData in self.partitions:
                none += item_PartitionData.count_errors(errors)
        return none


class NodeEndpoint:
    __slots__ = ('node_id', 'host', 'port', 'rack',)
    __struct_fields__ = ('node_id', 'host', 'port', 'rack',)

    def __init__(self, node_id=0, host='', port=0, rack=None):
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 12
        if end - at < 4:
            return -1
        self.node_id = int32(data, at)
        at += 4
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.host = text(data, at, n)
        at += n
        if end - at < 4:
            return -1
        self.port = int32(data, at)
        at += 4
        n, at = string_length(data, at, end, flexible)
        if at < 0:
            return -1
        if n < 0:
            self.rack = None
        else:
            self.rack = text(data, at, n)
            at += n
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 12
        total = 0
        if not fits32(self.node_id):
            return -1
        total += 4
        n = string_size(self.host, flexible, False)
        if n < 0:
            return -1
        total += n
        if not fits32(self.port):
            return -1
        total += 4
        n = string_size(self.rack, flexible, True)
        if n < 0:
            return -1
        total += n
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 12
        put32(out, at, self.node_id)
        at += 4
        at = put_string(out, at, self.host, flexible)
        put32(out, at, self.port)
        at += 4
        at = put_string(out, at, self.rack, flexible)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class FetchResponse(TypedMessage):
    __slots__ = ('throttle_time_ms', 'error_code', 'session_id', 'responses', 'node_endpoints',)
    __struct_fields__ = ('throttle_time_ms', 'error_code', 'session_id', 'responses', 'node_endpoints',)
    api_key = 1
    versions = VersionRange(4, 18)
    flexible = VersionRange(12, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, throttle_time_ms=0, error_code=0, session_id=0, responses=..., node_endpoints=...):
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is ... else responses
        self.node_endpoints = [] if node_endpoints is ... else node_endpoints

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 4 or version > 18:
            return -1
        flexible = version >= 12
        if end - at < 4:
            return -1
        self.throttle_time_ms = int32(data, at)
        at += 4
        if version >= 7:
            if end - at < 6:
                return -1
            self.error_code = int16(data, at)
            self.session_id = int32(data, at + 2)
            at += 6
        if not (version >= 7):
            self.error_code = 0
            self.session_id = 0
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_FetchableTopicResponse = FetchableTopicResponse.__new__(FetchableTopicResponse)
            at = item_FetchableTopicResponse.read(data, at, end, version, frame)
            if at < 0:
                return -1
            items.append(item_FetchableTopicResponse)
        self.responses = items
        self.node_endpoints = []
        if flexible:
            if at < end and data[at] == 0:
                at += 1
            else:
                at = self.read_tags(data, at, end, version)
        return at

    def read_tags(self, data, at, end, version):
        flexible = version >= 12
        count, at = tag_count(data, at, end)
        if at < 0:
            return -1
        last = -1
        while count > 0:
            count -= 1
            tag, at, stop = tag_at(data, at, end, last)
            if at < 0:
                return -1
            last = tag
            if tag == 0 and version >= 16:
                n, at = array_length(data, at, end, flexible, 11)
                if n < 0:
                    return -1
                items = []
                while n > 0:
                    n -= 1
                    item_NodeEndpoint = NodeEndpoint.__new__(NodeEndpoint)
                    at = item_NodeEndpoint.read(data, at, end, version)
                    if at < 0:
                        return -1
                    items.append(item_NodeEndpoint)
                self.node_endpoints = items
                if at != stop:
                    return -1
            at = stop
        return at

    def size(self, version, copied_max):
        if version < 4 or version > 18:
            return -1
        flexible = version >= 12
        total = 0
        if not fits32(self.throttle_time_ms):
            return -1
        total += 4
        if version >= 7:
            if not fits16(self.error_code) or not fits32(self.session_id):
                return -1
            total += 6
        if not (version >= 7) and self.session_id != 0:
            return -1
        if self.responses is None:
            return -1
        else:
            total += length_bytes(len(self.responses), flexible)
            for item_FetchableTopicResponse in self.responses:
                if item_FetchableTopicResponse is None:
                    return -1
                inner = item_FetchableTopicResponse.size(version, copied_max)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
            if version >= 16 and self.node_endpoints != []:
                if self.node_endpoints is None:
                    return -1
                inner = length_bytes(len(self.node_endpoints), True)
                for item_NodeEndpoint in self.node_endpoints:
                    if item_NodeEndpoint is None:
                        return -1
                    n = item_NodeEndpoint.size(version)
                    if n < 0:
                        return -1
                    inner += n
                if inner < 0:
                    return -1
                total += 1 + uvarint_bytes(inner) + inner
        if (not (version >= 16)) and self.node_endpoints != []:
            return -1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 12
        put32(out, at, self.throttle_time_ms)
        at += 4
        if version >= 7:
            put16(out, at, self.error_code)
            put32(out, at + 2, self.session_id)
            at += 6
        at = put_length(out, at, len(self.responses), flexible)
        for item_FetchableTopicResponse in self.responses:
            at = item_FetchableTopicResponse.write(out, at, version, copied_max, cuts)
        if flexible:
            n = 0
            if version >= 16 and self.node_endpoints != []:
                n += 1
            put8(out, at, n)
            at += 1
            if n:
                if version >= 16 and self.node_endpoints != []:
                    if self.node_endpoints is None:
                        return -1
                    inner = length_bytes(len(self.node_endpoints), True)
                    for item_NodeEndpoint in self.node_endpoints:
                        if item_NodeEndpoint is None:
                            return -1
                        n = item_NodeEndpoint.size(version)
                        if n < 0:
                            return -1
                        inner += n
                    at = put_uvarint(out, at, 0)
                    at = put_uvarint(out, at, inner)
                    at = put_length(out, at, len(self.node_endpoints), flexible)
                    for item_NodeEndpoint in self.node_endpoints:
                        at = item_NodeEndpoint.write(out, at, version)
        return at

    def count_errors(self, errors):
        none = 0
        if self.error_code == 0:
            none += 1
        else:
            errors[self.error_code] += 1
        if self.responses is not None:
            for item_FetchableTopicResponse in self.responses:
                none += item_FetchableTopicResponse.count_errors(errors)
        return none
