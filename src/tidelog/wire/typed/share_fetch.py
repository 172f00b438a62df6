# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=False
# mypy: ignore-errors
"""The typed messages of `tidelog.wire.messages.share_fetch`. Written by tools/typed_messages.py; not to be edited."""

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
        all_fit8,
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
        int8_list,
        int64,
        is_uuid,
        length_bytes,
        put8,
        put16,
        put32,
        put64,
        put_bytes,
        put_int32_list,
        put_int8_list,
        put_length,
        put_string,
        put_uuid,
        skip_tags,
        string_length,
        string_size,
        text,
        uuid,
    )
    from cython.cimports.tidelog.wire.typed.message import is_copied, records_bytes, view_of
else:
    from tidelog.wire.typed.fields import (
        all_fit32,
        all_fit8,
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
        int8_list,
        int64,
        is_uuid,
        length_bytes,
        put8,
        put16,
        put32,
        put64,
        put_bytes,
        put_int32_list,
        put_int8_list,
        put_length,
        put_string,
        put_uuid,
        skip_tags,
        string_length,
        string_size,
        text,
        uuid,
    )
    from tidelog.wire.typed.message import is_copied, records_bytes, view_of


class AcknowledgementBatch:
    __slots__ = ('first_offset', 'last_offset', 'acknowledge_types',)
    __struct_fields__ = ('first_offset', 'last_offset', 'acknowledge_types',)

    def __init__(self, first_offset=0, last_offset=0, acknowledge_types=...):
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is ... else acknowledge_types

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 16:
            return -1
        self.first_offset = int64(data, at)
        self.last_offset = int64(data, at + 8)
        at += 16
        n, at = array_length(data, at, end, True, 1)
        if n < 0:
            return -1
        self.acknowledge_types = int8_list(data, at, n)
        at += n
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not fits64(self.first_offset) or not fits64(self.last_offset):
            return -1
        total += 16
        if self.acknowledge_types is None:
            return -1
        else:
            total += length_bytes(len(self.acknowledge_types), True)
            if not all_fit8(self.acknowledge_types):
                return -1
            total += len(self.acknowledge_types)
        total += 1
        return total

    def write(self, out, at, version):
        put64(out, at, self.first_offset)
        put64(out, at + 8, self.last_offset)
        at += 16
        at = put_length(out, at, len(self.acknowledge_types), True)
        at = put_int8_list(out, at, self.acknowledge_types)
        put8(out, at, 0)
        at += 1
        return at


class FetchPartition:
    __slots__ = ('partition_index', 'acknowledgement_batches',)
    __struct_fields__ = ('partition_index', 'acknowledgement_batches',)

    def __init__(self, partition_index=0, acknowledgement_batches=...):
        self.partition_index = partition_index
        self.acknowledgement_batches = [] if acknowledgement_batches is ... else acknowledgement_batches

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 4:
            return -1
        self.partition_index = int32(data, at)
        at += 4
        n, at = array_length(data, at, end, True, 18)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_AcknowledgementBatch = AcknowledgementBatch.__new__(AcknowledgementBatch)
            at = item_AcknowledgementBatch.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_AcknowledgementBatch)
        self.acknowledgement_batches = items
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not fits32(self.partition_index):
            return -1
        total += 4
        if self.acknowledgement_batches is None:
            return -1
        else:
            total += length_bytes(len(self.acknowledgement_batches), True)
            for item_AcknowledgementBatch in self.acknowledgement_batches:
                if item_AcknowledgementBatch is None:
                    return -1
                inner = item_AcknowledgementBatch.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version):
        put32(out, at, self.partition_index)
        at += 4
        at = put_length(out, at, len(self.acknowledgement_batches), True)
        for item_AcknowledgementBatch in self.acknowledgement_batches:
            at = item_AcknowledgementBatch.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at


class FetchTopic:
    __slots__ = ('topic_id', 'partitions',)
    __struct_fields__ = ('topic_id', 'partitions',)

    def __init__(self, topic_id=ZERO_UUID, partitions=...):
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 16:
            return -1
        self.topic_id = uuid(data, at)
        at += 16
        n, at = array_length(data, at, end, True, 6)
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
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not is_uuid(self.topic_id):
            return -1
        total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), True)
            for item_FetchPartition in self.partitions:
                if item_FetchPartition is None:
                    return -1
                inner = item_FetchPartition.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version):
        put_uuid(out, at, self.topic_id)
        at += 16
        at = put_length(out, at, len(self.partitions), True)
        for item_FetchPartition in self.partitions:
            at = item_FetchPartition.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at


class ForgottenTopic:
    __slots__ = ('topic_id', 'partitions',)
    __struct_fields__ = ('topic_id', 'partitions',)

    def __init__(self, topic_id=ZERO_UUID, partitions=...):
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 16:
            return -1
        self.topic_id = uuid(data, at)
        at += 16
        n, at = array_length(data, at, end, True, 4)
        if n < 0:
            return -1
        self.partitions = int32_list(data, at, n)
        at += 4 * n
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not is_uuid(self.topic_id):
            return -1
        total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), True)
            if not all_fit32(self.partitions):
                return -1
            total += 4 * len(self.partitions)
        total += 1
        return total

    def write(self, out, at, version):
        put_uuid(out, at, self.topic_id)
        at += 16
        at = put_length(out, at, len(self.partitions), True)
        at = put_int32_list(out, at, self.partitions)
        put8(out, at, 0)
        at += 1
        return at


class ShareFetchRequest(TypedMessage):
    __slots__ = ('group_id', 'member_id', 'share_session_epoch', 'max_wait_ms', 'min_bytes', 'max_bytes', 'max_records', 'batch_size', 'share_acquire_mode', 'is_renew_ack', 'topics', 'forgotten_topics_data',)
    __struct_fields__ = ('group_id', 'member_id', 'share_session_epoch', 'max_wait_ms', 'min_bytes', 'max_bytes', 'max_records', 'batch_size', 'share_acquire_mode', 'is_renew_ack', 'topics', 'forgotten_topics_data',)
    api_key = 78
    versions = VersionRange(1, 2)
    flexible = VersionRange(1, 32767)
    listener_kinds = ('broker',)
    latest_version_unstable = False

    def __init__(self, group_id=None, member_id='', share_session_epoch=0, max_wait_ms=0, min_bytes=0, max_bytes=2147483647, max_records=0, batch_size=0, share_acquire_mode=0, is_renew_ack=False, topics=..., forgotten_topics_data=...):
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is ... else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is ... else forgotten_topics_data

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 1 or version > 2:
            return -1
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.group_id = None
        else:
            self.group_id = text(data, at, n)
            at += n
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.member_id = None
        else:
            self.member_id = text(data, at, n)
            at += n
        if end - at < 24:
            return -1
        self.share_session_epoch = int32(data, at)
        self.max_wait_ms = int32(data, at + 4)
        self.min_bytes = int32(data, at + 8)
        self.max_bytes = int32(data, at + 12)
        self.max_records = int32(data, at + 16)
        self.batch_size = int32(data, at + 20)
        at += 24
        if version >= 2:
            if end - at < 2:
                return -1
            self.share_acquire_mode = int8(data, at)
            self.is_renew_ack = data[at + 1] != 0
            at += 2
        if not (version >= 2):
            self.share_acquire_mode = 0
            self.is_renew_ack = False
        n, at = array_length(data, at, end, True, 18)
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
        n, at = array_length(data, at, end, True, 18)
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
        at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 1 or version > 2:
            return -1
        total = 0
        n = string_size(self.group_id, True, True)
        if n < 0:
            return -1
        total += n
        n = string_size(self.member_id, True, True)
        if n < 0:
            return -1
        total += n
        if not fits32(self.share_session_epoch) or not fits32(self.max_wait_ms) or not fits32(self.min_bytes) or not fits32(self.max_bytes) or not fits32(self.max_records) or not fits32(self.batch_size):
            return -1
        total += 24
        if version >= 2:
            if not fits8(self.share_acquire_mode):
                return -1
            total += 2
        if not (version >= 2) and self.is_renew_ack:
            return -1
        if self.topics is None:
            return -1
        else:
            total += length_bytes(len(self.topics), True)
            for item_FetchTopic in self.topics:
                if item_FetchTopic is None:
                    return -1
                inner = item_FetchTopic.size(version)
                if inner < 0:
                    return -1
                total += inner
        if self.forgotten_topics_data is None:
            return -1
        else:
            total += length_bytes(len(self.forgotten_topics_data), True)
            for item_ForgottenTopic in self.forgotten_topics_data:
                if item_ForgottenTopic is None:
                    return -1
                inner = item_ForgottenTopic.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        at = put_string(out, at, self.group_id, True)
        at = put_string(out, at, self.member_id, True)
        put32(out, at, self.share_session_epoch)
        put32(out, at + 4, self.max_wait_ms)
        put32(out, at + 8, self.min_bytes)
        put32(out, at + 12, self.max_bytes)
        put32(out, at + 16, self.max_records)
        put32(out, at + 20, self.batch_size)
        at += 24
        if version >= 2:
            put8(out, at, self.share_acquire_mode)
            put8(out, at + 1, 1 if self.is_renew_ack else 0)
            at += 2
        at = put_length(out, at, len(self.topics), True)
        for item_FetchTopic in self.topics:
            at = item_FetchTopic.write(out, at, version)
        at = put_length(out, at, len(self.forgotten_topics_data), True)
        for item_ForgottenTopic in self.forgotten_topics_data:
            at = item_ForgottenTopic.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at


class LeaderIdAndEpoch:
    __slots__ = ('leader_id', 'leader_epoch',)
    __struct_fields__ = ('leader_id', 'leader_epoch',)

    def __init__(self, leader_id=0, leader_epoch=0):
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 8:
            return -1
        self.leader_id = int32(data, at)
        self.leader_epoch = int32(data, at + 4)
        at += 8
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not fits32(self.leader_id) or not fits32(self.leader_epoch):
            return -1
        total += 8
        total += 1
        return total

    def write(self, out, at, version):
        put32(out, at, self.leader_id)
        put32(out, at + 4, self.leader_epoch)
        at += 8
        put8(out, at, 0)
        at += 1
        return at

    def is_default(self):
        return not (self.leader_id != 0 or self.leader_epoch != 0)


class AcquiredRecords:
    __slots__ = ('first_offset', 'last_offset', 'delivery_count',)
    __struct_fields__ = ('first_offset', 'last_offset', 'delivery_count',)

    def __init__(self, first_offset=0, last_offset=0, delivery_count=0):
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 18:
            return -1
        self.first_offset = int64(data, at)
        self.last_offset = int64(data, at + 8)
        self.delivery_count = int16(data, at + 16)
        at += 18
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not fits64(self.first_offset) or not fits64(self.last_offset) or not fits16(self.delivery_count):
            return -1
        total += 18
        total += 1
        return total

    def write(self, out, at, version):
        put64(out, at, self.first_offset)
        put64(out, at + 8, self.last_offset)
        put16(out, at + 16, self.delivery_count)
        at += 18
        put8(out, at, 0)
        at += 1
        return at


class PartitionData:
    __slots__ = ('partition_index', 'error_code', 'error_message', 'acknowledge_error_code', 'acknowledge_error_message', '_current_leader', '_records', '_records_in', '_records_at', '_records_end', 'acquired_records',)
    __struct_fields__ = ('partition_index', 'error_code', 'error_message', 'acknowledge_error_code', 'acknowledge_error_message', 'current_leader', 'records', 'acquired_records',)

    def __init__(self, partition_index=0, error_code=0, error_message=None, acknowledge_error_code=0, acknowledge_error_message=None, current_leader=None, records=b'', acquired_records=...):
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self._current_leader = current_leader
        self._records = records
        self._records_in = None
        self._records_at = self._records_end = 0
        self.acquired_records = [] if acquired_records is ... else acquired_records

    @property
    def current_leader(self):
        if self._current_leader is None:
            self._current_leader = LeaderIdAndEpoch()
        return self._current_leader

    @current_leader.setter
    def current_leader(self, value):
        self._current_leader = value

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
        if end - at < 6:
            return -1
        self.partition_index = int32(data, at)
        self.error_code = int16(data, at + 4)
        at += 6
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.error_message = None
        else:
            self.error_message = text(data, at, n)
            at += n
        if end - at < 2:
            return -1
        self.acknowledge_error_code = int16(data, at)
        at += 2
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.acknowledge_error_message = None
        else:
            self.acknowledge_error_message = text(data, at, n)
            at += n
        item_LeaderIdAndEpoch = LeaderIdAndEpoch.__new__(LeaderIdAndEpoch)
        at = item_LeaderIdAndEpoch.read(data, at, end, version)
        if at < 0:
            return -1
        self._current_leader = item_LeaderIdAndEpoch
        n, at = bytes_length(data, at, end, True)
        if n < 0:
            return -1
        self._records = None
        self._records_in = frame
        self._records_at = at
        self._records_end = at + n
        at += n
        n, at = array_length(data, at, end, True, 19)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_AcquiredRecords = AcquiredRecords.__new__(AcquiredRecords)
            at = item_AcquiredRecords.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_AcquiredRecords)
        self.acquired_records = items
        at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        total = 0
        if not fits32(self.partition_index) or not fits16(self.error_code):
            return -1
        total += 6
        n = string_size(self.error_message, True, True)
        if n < 0:
            return -1
        total += n
        if not fits16(self.acknowledge_error_code):
            return -1
        total += 2
        n = string_size(self.acknowledge_error_message, True, True)
        if n < 0:
            return -1
        total += n
        if self._current_leader is None:
            self._current_leader = LeaderIdAndEpoch()
        if self._current_leader is None:
            return -1
        else:
            inner = self._current_leader.size(version)
            if inner < 0:
                return -1
            total += inner
        if self.get_records() is None:
            return -1
        else:
            n = records_bytes(self._records)
            total += length_bytes(n, True)
            if is_copied(self._records, n, copied_max):
                total += n
        if self.acquired_records is None:
            return -1
        else:
            total += length_bytes(len(self.acquired_records), True)
            for item_AcquiredRecords in self.acquired_records:
                if item_AcquiredRecords is None:
                    return -1
                inner = item_AcquiredRecords.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        put32(out, at, self.partition_index)
        put16(out, at + 4, self.error_code)
        at += 6
        at = put_string(out, at, self.error_message, True)
        put16(out, at, self.acknowledge_error_code)
        at += 2
        at = put_string(out, at, self.acknowledge_error_message, True)
        at = self._current_leader.write(out, at, version)
        n = records_bytes(self._records)
        at = put_length(out, at, n, True)
        if is_copied(self._records, n, copied_max):
            at = put_bytes(out, at, self._records)
        else:
            cuts.append(at)
            cuts.append(self._records)
        at = put_length(out, at, len(self.acquired_records), True)
        for item_AcquiredRecords in self.acquired_records:
            at = item_AcquiredRecords.write(out, at, version)
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


class ShareFetchableTopicResponse:
    __slots__ = ('topic_id', 'partitions',)
    __struct_fields__ = ('topic_id', 'partitions',)

    def __init__(self, topic_id=ZERO_UUID, partitions=...):
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if end - at < 16:
            return -1
        self.topic_id = uuid(data, at)
        at += 16
        n, at = array_length(data, at, end, True, 22)
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
        at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        total = 0
        if not is_uuid(self.topic_id):
            return -1
        total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), True)
            for item_PartitionData in self.partitions:
                if item_PartitionData is None:
                    return -1
                inner = item_PartitionData.size(version, copied_max)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        put_uuid(out, at, self.topic_id)
        at += 16
        at = put_length(out, at, len(self.partitions), True)
        for item_PartitionData in self.partitions:
            at = item_PartitionData.write(out, at, version, copied_max, cuts)
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
        if end - at < 4:
            return -1
        self.node_id = int32(data, at)
        at += 4
        n, at = string_length(data, at, end, True)
        if n < 0:
            return -1
        self.host = text(data, at, n)
        at += n
        if end - at < 4:
            return -1
        self.port = int32(data, at)
        at += 4
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.rack = None
        else:
            self.rack = text(data, at, n)
            at += n
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not fits32(self.node_id):
            return -1
        total += 4
        n = string_size(self.host, True, False)
        if n < 0:
            return -1
        total += n
        if not fits32(self.port):
            return -1
        total += 4
        n = string_size(self.rack, True, True)
        if n < 0:
            return -1
        total += n
        total += 1
        return total

    def write(self, out, at, version):
        put32(out, at, self.node_id)
        at += 4
        at = put_string(out, at, self.host, True)
        put32(out, at, self.port)
        at += 4
        at = put_string(out, at, self.rack, True)
        put8(out, at, 0)
        at += 1
        return at


class ShareFetchResponse(TypedMessage):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'acquisition_lock_timeout_ms', 'responses', 'node_endpoints',)
    __struct_fields__ = ('throttle_time_ms', 'error_code', 'error_message', 'acquisition_lock_timeout_ms', 'responses', 'node_endpoints',)
    api_key = 78
    versions = VersionRange(1, 2)
    flexible = VersionRange(1, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, throttle_time_ms=0, error_code=0, error_message=None, acquisition_lock_timeout_ms=0, responses=..., node_endpoints=...):
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is ... else responses
        self.node_endpoints = [] if node_endpoints is ... else node_endpoints

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 1 or version > 2:
            return -1
        if end - at < 6:
            return -1
        self.throttle_time_ms = int32(data, at)
        self.error_code = int16(data, at + 4)
        at += 6
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.error_message = None
        else:
            self.error_message = text(data, at, n)
            at += n
        if end - at < 4:
            return -1
        self.acquisition_lock_timeout_ms = int32(data, at)
        at += 4
        n, at = array_length(data, at, end, True, 18)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_ShareFetchableTopicResponse = ShareFetchableTopicResponse.__new__(ShareFetchableTopicResponse)
            at = item_ShareFetchableTopicResponse.read(data, at, end, version, frame)
            if at < 0:
                return -1
            items.append(item_ShareFetchableTopicResponse)
        self.responses = items
        n, at = array_length(data, at, end, True, 11)
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
        at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 1 or version > 2:
            return -1
        total = 0
        if not fits32(self.throttle_time_ms) or not fits16(self.error_code):
            return -1
        total += 6
        n = string_size(self.error_message, True, True)
        if n < 0:
            return -1
        total += n
        if not fits32(self.acquisition_lock_timeout_ms):
            return -1
        total += 4
        if self.responses is None:
            return -1
        else:
            total += length_bytes(len(self.responses), True)
            for item_ShareFetchableTopicResponse in self.responses:
                if item_ShareFetchableTopicResponse is None:
                    return -1
                inner = item_ShareFetchableTopicResponse.size(version, copied_max)
                if inner < 0:
                    return -1
                total += inner
        if self.node_endpoints is None:
            return -1
        else:
            total += length_bytes(len(self.node_endpoints), True)
            for item_NodeEndpoint in self.node_endpoints:
                if item_NodeEndpoint is None:
                    return -1
                inner = item_NodeEndpoint.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        put32(out, at, self.throttle_time_ms)
        put16(out, at + 4, self.error_code)
        at += 6
        at = put_string(out, at, self.error_message, True)
        put32(out, at, self.acquisition_lock_timeout_ms)
        at += 4
        at = put_length(out, at, len(self.responses), True)
        for item_ShareFetchableTopicResponse in self.responses:
            at = item_ShareFetchableTopicResponse.write(out, at, version, copied_max, cuts)
        at = put_length(out, at, len(self.node_endpoints), True)
        for item_NodeEndpoint in self.node_endpoints:
            at = item_NodeEndpoint.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.error_code == 0:
            none += 1
        else:
            errors[self.error_code] += 1
        if self.responses is not None:
            for item_ShareFetchableTopicResponse in self.responses:
                none += item_ShareFetchableTopicResponse.count_errors(errors)
        return none


class AcknowledgePartition:
    __slots__ = ('partition_index', 'acknowledgement_batches',)
    __struct_fields__ = ('partition_index', 'acknowledgement_batches',)

    def __init__(self, partition_index=0, acknowledgement_batches=...):
        self.partition_index = partition_index
        self.acknowledgement_batches = [] if acknowledgement_batches is ... else acknowledgement_batches

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 4:
            return -1
        self.partition_index = int32(data, at)
        at += 4
        n, at = array_length(data, at, end, True, 18)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_AcknowledgementBatch = AcknowledgementBatch.__new__(AcknowledgementBatch)
            at = item_AcknowledgementBatch.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_AcknowledgementBatch)
        self.acknowledgement_batches = items
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not fits32(self.partition_index):
            return -1
        total += 4
        if self.acknowledgement_batches is None:
            return -1
        else:
            total += length_bytes(len(self.acknowledgement_batches), True)
            for item_AcknowledgementBatch in self.acknowledgement_batches:
                if item_AcknowledgementBatch is None:
                    return -1
                inner = item_AcknowledgementBatch.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version):
        put32(out, at, self.partition_index)
        at += 4
        at = put_length(out, at, len(self.acknowledgement_batches), True)
        for item_AcknowledgementBatch in self.acknowledgement_batches:
            at = item_AcknowledgementBatch.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at


class AcknowledgeTopic:
    __slots__ = ('topic_id', 'partitions',)
    __struct_fields__ = ('topic_id', 'partitions',)

    def __init__(self, topic_id=ZERO_UUID, partitions=...):
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 16:
            return -1
        self.topic_id = uuid(data, at)
        at += 16
        n, at = array_length(data, at, end, True, 6)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_AcknowledgePartition = AcknowledgePartition.__new__(AcknowledgePartition)
            at = item_AcknowledgePartition.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_AcknowledgePartition)
        self.partitions = items
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not is_uuid(self.topic_id):
            return -1
        total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), True)
            for item_AcknowledgePartition in self.partitions:
                if item_AcknowledgePartition is None:
                    return -1
                inner = item_AcknowledgePartition.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version):
        put_uuid(out, at, self.topic_id)
        at += 16
        at = put_length(out, at, len(self.partitions), True)
        for item_AcknowledgePartition in self.partitions:
            at = item_AcknowledgePartition.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at


class ShareAcknowledgeRequest(TypedMessage):
    __slots__ = ('group_id', 'member_id', 'share_session_epoch', 'is_renew_ack', 'topics',)
    __struct_fields__ = ('group_id', 'member_id', 'share_session_epoch', 'is_renew_ack', 'topics',)
    api_key = 79
    versions = VersionRange(1, 2)
    flexible = VersionRange(1, 32767)
    listener_kinds = ('broker',)
    latest_version_unstable = False

    def __init__(self, group_id=None, member_id='', share_session_epoch=0, is_renew_ack=False, topics=...):
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is ... else topics

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 1 or version > 2:
            return -1
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.group_id = None
        else:
            self.group_id = text(data, at, n)
            at += n
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.member_id = None
        else:
            self.member_id = text(data, at, n)
            at += n
        if end - at < 4:
            return -1
        self.share_session_epoch = int32(data, at)
        at += 4
        if version >= 2:
            if end - at < 1:
                return -1
            self.is_renew_ack = data[at] != 0
            at += 1
        if not (version >= 2):
            self.is_renew_ack = False
        n, at = array_length(data, at, end, True, 18)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_AcknowledgeTopic = AcknowledgeTopic.__new__(AcknowledgeTopic)
            at = item_AcknowledgeTopic.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_AcknowledgeTopic)
        self.topics = items
        at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 1 or version > 2:
            return -1
        total = 0
        n = string_size(self.group_id, True, True)
        if n < 0:
            return -1
        total += n
        n = string_size(self.member_id, True, True)
        if n < 0:
            return -1
        total += n
        if not fits32(self.share_session_epoch):
            return -1
        total += 4
        if version >= 2:
            total += 1
        if not (version >= 2) and self.is_renew_ack:
            return -1
        if self.topics is None:
            return -1
        else:
            total += length_bytes(len(self.topics), True)
            for item_AcknowledgeTopic in self.topics:
                if item_AcknowledgeTopic is None:
                    return -1
                inner = item_AcknowledgeTopic.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        at = put_string(out, at, self.group_id, True)
        at = put_string(out, at, self.member_id, True)
        put32(out, at, self.share_session_epoch)
        at += 4
        if version >= 2:
            put8(out, at, 1 if self.is_renew_ack else 0)
            at += 1
        at = put_length(out, at, len(self.topics), True)
        for item_AcknowledgeTopic in self.topics:
            at = item_AcknowledgeTopic.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at


class ShareAcknowledgePartitionData:
    __slots__ = ('partition_index', 'error_code', 'error_message', '_current_leader',)
    __struct_fields__ = ('partition_index', 'error_code', 'error_message', 'current_leader',)

    def __init__(self, partition_index=0, error_code=0, error_message=None, current_leader=None):
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self._current_leader = current_leader

    @property
    def current_leader(self):
        if self._current_leader is None:
            self._current_leader = LeaderIdAndEpoch()
        return self._current_leader

    @current_leader.setter
    def current_leader(self, value):
        self._current_leader = value

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 6:
            return -1
        self.partition_index = int32(data, at)
        self.error_code = int16(data, at + 4)
        at += 6
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.error_message = None
        else:
            self.error_message = text(data, at, n)
            at += n
        item_LeaderIdAndEpoch = LeaderIdAndEpoch.__new__(LeaderIdAndEpoch)
        at = item_LeaderIdAndEpoch.read(data, at, end, version)
        if at < 0:
            return -1
        self._current_leader = item_LeaderIdAndEpoch
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not fits32(self.partition_index) or not fits16(self.error_code):
            return -1
        total += 6
        n = string_size(self.error_message, True, True)
        if n < 0:
            return -1
        total += n
        if self._current_leader is None:
            self._current_leader = LeaderIdAndEpoch()
        if self._current_leader is None:
            return -1
        else:
            inner = self._current_leader.size(version)
            if inner < 0:
                return -1
            total += inner
        total += 1
        return total

    def write(self, out, at, version):
        put32(out, at, self.partition_index)
        put16(out, at + 4, self.error_code)
        at += 6
        at = put_string(out, at, self.error_message, True)
        at = self._current_leader.write(out, at, version)
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


class ShareAcknowledgeTopicResponse:
    __slots__ = ('topic_id', 'partitions',)
    __struct_fields__ = ('topic_id', 'partitions',)

    def __init__(self, topic_id=ZERO_UUID, partitions=...):
        self.topic_id = topic_id
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        if end - at < 16:
            return -1
        self.topic_id = uuid(data, at)
        at += 16
        n, at = array_length(data, at, end, True, 17)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_ShareAcknowledgePartitionData = ShareAcknowledgePartitionData.__new__(ShareAcknowledgePartitionData)
            at = item_ShareAcknowledgePartitionData.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_ShareAcknowledgePartitionData)
        self.partitions = items
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if not is_uuid(self.topic_id):
            return -1
        total += 16
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), True)
            for item_ShareAcknowledgePartitionData in self.partitions:
                if item_ShareAcknowledgePartitionData is None:
                    return -1
                inner = item_ShareAcknowledgePartitionData.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version):
        put_uuid(out, at, self.topic_id)
        at += 16
        at = put_length(out, at, len(self.partitions), True)
        for item_ShareAcknowledgePartitionData in self.partitions:
            at = item_ShareAcknowledgePartitionData.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.partitions is not None:
            for item_ShareAcknowledgePartitionData in self.partitions:
                none += item_ShareAcknowledgePartitionData.count_errors(errors)
        return none


class ShareAcknowledgeResponse(TypedMessage):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'acquisition_lock_timeout_ms', 'responses', 'node_endpoints',)
    __struct_fields__ = ('throttle_time_ms', 'error_code', 'error_message', 'acquisition_lock_timeout_ms', 'responses', 'node_endpoints',)
    api_key = 79
    versions = VersionRange(1, 2)
    flexible = VersionRange(1, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, throttle_time_ms=0, error_code=0, error_message=None, acquisition_lock_timeout_ms=0, responses=..., node_endpoints=...):
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is ... else responses
        self.node_endpoints = [] if node_endpoints is ... else node_endpoints

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 1 or version > 2:
            return -1
        if end - at < 6:
            return -1
        self.throttle_time_ms = int32(data, at)
        self.error_code = int16(data, at + 4)
        at += 6
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.error_message = None
        else:
            self.error_message = text(data, at, n)
            at += n
        if version >= 2:
            if end - at < 4:
                return -1
            self.acquisition_lock_timeout_ms = int32(data, at)
            at += 4
        if not (version >= 2):
            self.acquisition_lock_timeout_ms = 0
        n, at = array_length(data, at, end, True, 18)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_ShareAcknowledgeTopicResponse = ShareAcknowledgeTopicResponse.__new__(ShareAcknowledgeTopicResponse)
            at = item_ShareAcknowledgeTopicResponse.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_ShareAcknowledgeTopicResponse)
        self.responses = items
        n, at = array_length(data, at, end, True, 11)
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
        at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 1 or version > 2:
            return -1
        total = 0
        if not fits32(self.throttle_time_ms) or not fits16(self.error_code):
            return -1
        total += 6
        n = string_size(self.error_message, True, True)
        if n < 0:
            return -1
        total += n
        if version >= 2:
            if not fits32(self.acquisition_lock_timeout_ms):
                return -1
            total += 4
        if self.responses is None:
            return -1
        else:
            total += length_bytes(len(self.responses), True)
            for item_ShareAcknowledgeTopicResponse in self.responses:
                if item_ShareAcknowledgeTopicResponse is None:
                    return -1
                inner = item_ShareAcknowledgeTopicResponse.size(version)
                if inner < 0:
                    return -1
                total += inner
        if self.node_endpoints is None:
            return -1
        else:
            total += length_bytes(len(self.node_endpoints), True)
            for item_NodeEndpoint in self.node_endpoints:
                if item_NodeEndpoint is None:
                    return -1
                inner = item_NodeEndpoint.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        put32(out, at, self.throttle_time_ms)
        put16(out, at + 4, self.error_code)
        at += 6
        at = put_string(out, at, self.error_message, True)
        if version >= 2:
            put32(out, at, self.acquisition_lock_timeout_ms)
            at += 4
        at = put_length(out, at, len(self.responses), True)
        for item_ShareAcknowledgeTopicResponse in self.responses:
            at = item_ShareAcknowledgeTopicResponse.write(out, at, version)
        at = put_length(out, at, len(self.node_endpoints), True)
        for item_NodeEndpoint in self.node_endpoints:
            at = item_NodeEndpoint.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.error_code == 0:
            none += 1
        else:
            errors[self.error_code] += 1
        if self.responses is not None:
            for item_ShareAcknowledgeTopicResponse in self.responses:
                none += item_ShareAcknowledgeTopicResponse.count_errors(errors)
        return none
