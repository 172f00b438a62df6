# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=False
# mypy: ignore-errors
"""The typed messages of `tidelog.wire.messages.produce`. Written by tools/typed_messages.py; not to be edited."""

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
        bytes_length,
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
        put_bytes,
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
        array_length,
        bytes_length,
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
        put_bytes,
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


class PartitionProduceData:
    __slots__ = ('index', '_records', '_records_in', '_records_at', '_records_end',)
    __struct_fields__ = ('index', 'records',)

    def __init__(self, index=0, records=None):
        self.index = index
        self._records = records
        self._records_in = None
        self._records_at = self._records_end = 0

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
        flexible = version >= 9
        if end - at < 4:
            return -1
        self.index = int32(data, at)
        at += 4
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
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        flexible = version >= 9
        total = 0
        if not fits32(self.index):
            return -1
        total += 4
        if self.get_records() is None:
            total += length_bytes(-1, flexible)
        else:
            n = records_bytes(self._records)
            total += length_bytes(n, flexible)
            if is_copied(self._records, n, copied_max):
                total += n
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 9
        put32(out, at, self.index)
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
            put8(out, at, 0)
            at += 1
        return at


class TopicProduceData:
    __slots__ = ('name', 'topic_id', 'partition_data',)
    __struct_fields__ = ('name', 'topic_id', 'partition_data',)

    def __init__(self, name='', topic_id=ZERO_UUID, partition_data=...):
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is ... else partition_data

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        flexible = version >= 9
        if version <= 12:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.name = text(data, at, n)
            at += n
        if not (version <= 12):
            self.name = ''
        if version >= 13:
            if end - at < 16:
                return -1
            self.topic_id = uuid(data, at)
            at += 16
        if not (version >= 13):
            self.topic_id = ZERO_UUID
        n, at = array_length(data, at, end, flexible, 6)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_PartitionProduceData = PartitionProduceData.__new__(PartitionProduceData)
            at = item_PartitionProduceData.read(data, at, end, version, frame)
            if at < 0:
                return -1
            items.append(item_PartitionProduceData)
        self.partition_data = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        flexible = version >= 9
        total = 0
        if version <= 12:
            n = string_size(self.name, flexible, False)
            if n < 0:
                return -1
            total += n
        if version >= 13:
            if not is_uuid(self.topic_id):
                return -1
            total += 16
        if self.partition_data is None:
            return -1
        else:
            total += length_bytes(len(self.partition_data), flexible)
            for item_PartitionProduceData in self.partition_data:
                if item_PartitionProduceData is None:
                    return -1
                inner = item_PartitionProduceData.size(version, copied_max)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 9
        if version <= 12:
            at = put_string(out, at, self.name, flexible)
        if version >= 13:
            put_uuid(out, at, self.topic_id)
            at += 16
        at = put_length(out, at, len(self.partition_data), flexible)
        for item_PartitionProduceData in self.partition_data:
            at = item_PartitionProduceData.write(out, at, version, copied_max, cuts)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class ProduceRequest(TypedMessage):
    __slots__ = ('transactional_id', 'acks', 'timeout_ms', 'topic_data',)
    __struct_fields__ = ('transactional_id', 'acks', 'timeout_ms', 'topic_data',)
    api_key = 0
    versions = VersionRange(3, 13)
    flexible = VersionRange(9, 32767)
    listener_kinds = ('broker',)
    latest_version_unstable = False

    def __init__(self, transactional_id=None, acks=0, timeout_ms=0, topic_data=...):
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is ... else topic_data

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 3 or version > 13:
            return -1
        flexible = version >= 9
        n, at = string_length(data, at, end, flexible)
        if at < 0:
            return -1
        if n < 0:
            self.transactional_id = None
        else:
            self.transactional_id = text(data, at, n)
            at += n
        if end - at < 6:
            return -1
        self.acks = int16(data, at)
        self.timeout_ms = int32(data, at + 2)
        at += 6
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_TopicProduceData = TopicProduceData.__new__(TopicProduceData)
            at = item_TopicProduceData.read(data, at, end, version, frame)
            if at < 0:
                return -1
            items.append(item_TopicProduceData)
        self.topic_data = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 3 or version > 13:
            return -1
        flexible = version >= 9
        total = 0
        n = string_size(self.transactional_id, flexible, True)
        if n < 0:
            return -1
        total += n
        if not fits16(self.acks) or not fits32(self.timeout_ms):
            return -1
        total += 6
        if self.topic_data is None:
            return -1
        else:
            total += length_bytes(len(self.topic_data), flexible)
            for item_TopicProduceData in self.topic_data:
                if item_TopicProduceData is None:
                    return -1
                inner = item_TopicProduceData.size(version, copied_max)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 9
        at = put_string(out, at, self.transactional_id, flexible)
        put16(out, at, self.acks)
        put32(out, at + 2, self.timeout_ms)
        at += 6
        at = put_length(out, at, len(self.topic_data), flexible)
        for item_TopicProduceData in self.topic_data:
            at = item_TopicProduceData.write(out, at, version, copied_max, cuts)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class BatchIndexAndErrorMessage:
    __slots__ = ('batch_index', 'batch_index_error_message',)
    __struct_fields__ = ('batch_index', 'batch_index_error_message',)

    def __init__(self, batch_index=0, batch_index_error_message=None):
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 9
        if end - at < 4:
            return -1
        self.batch_index = int32(data, at)
        at += 4
        n, at = string_length(data, at, end, flexible)
        if at < 0:
            return -1
        if n < 0:
            self.batch_index_error_message = None
        else:
            self.batch_index_error_message = text(data, at, n)
            at += n
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 9
        total = 0
        if not fits32(self.batch_index):
            return -1
        total += 4
        n = string_size(self.batch_index_error_message, flexible, True)
        if n < 0:
            return -1
        total += n
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 9
        put32(out, at, self.batch_index)
        at += 4
        at = put_string(out, at, self.batch_index_error_message, flexible)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


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
        flexible = version >= 9
        if end - at < 8:
            return -1
        self.leader_id = int32(data, at)
        self.leader_epoch = int32(data, at + 4)
        at += 8
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 9
        total = 0
        if not fits32(self.leader_id) or not fits32(self.leader_epoch):
            return -1
        total += 8
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 9
        put32(out, at, self.leader_id)
        put32(out, at + 4, self.leader_epoch)
        at += 8
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def is_default(self):
        return not (self.leader_id != -1 or self.leader_epoch != -1)


class PartitionProduceResponse:
    __slots__ = ('index', 'error_code', 'base_offset', 'log_append_time_ms', 'log_start_offset', 'record_errors', 'error_message', '_current_leader',)
    __struct_fields__ = ('index', 'error_code', 'base_offset', 'log_append_time_ms', 'log_start_offset', 'record_errors', 'error_message', 'current_leader',)

    def __init__(self, index=0, error_code=0, base_offset=0, log_append_time_ms=-1, log_start_offset=-1, record_errors=..., error_message=None, current_leader=None):
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is ... else record_errors
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
        flexible = version >= 9
        if end - at < 22:
            return -1
        self.index = int32(data, at)
        self.error_code = int16(data, at + 4)
        self.base_offset = int64(data, at + 6)
        self.log_append_time_ms = int64(data, at + 14)
        at += 22
        if version >= 5:
            if end - at < 8:
                return -1
            self.log_start_offset = int64(data, at)
            at += 8
        if not (version >= 5):
            self.log_start_offset = -1
        if version >= 8:
            n, at = array_length(data, at, end, flexible, 6)
            if n < 0:
                return -1
            items = []
            while n > 0:
                n -= 1
                item_BatchIndexAndErrorMessage = BatchIndexAndErrorMessage.__new__(BatchIndexAndErrorMessage)
                at = item_BatchIndexAndErrorMessage.read(data, at, end, version)
                if at < 0:
                    return -1
                items.append(item_BatchIndexAndErrorMessage)
            self.record_errors = items
        if not (version >= 8):
            self.record_errors = []
        if version >= 8:
            n, at = string_length(data, at, end, flexible)
            if at < 0 or (n < 0 and not (version >= 8)):
                return -1
            if n < 0:
                self.error_message = None
            else:
                self.error_message = text(data, at, n)
                at += n
        if not (version >= 8):
            self.error_message = None
        self._current_leader = None
        if flexible:
            if at < end and data[at] == 0:
                at += 1
            else:
                at = self.read_tags(data, at, end, version)
        return at

    def read_tags(self, data, at, end, version):
        flexible = version >= 9
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
            if tag == 0 and version >= 10:
                item_LeaderIdAndEpoch = LeaderIdAndEpoch.__new__(LeaderIdAndEpoch)
                at = item_LeaderIdAndEpoch.read(data, at, end, version)
                if at < 0:
                    return -1
                self._current_leader = item_LeaderIdAndEpoch
                if at != stop:
                    return -1
            at = stop
        return at

    def size(self, version):
        flexible = version >= 9
        total = 0
        if not fits32(self.index) or not fits16(self.error_code) or not fits64(self.base_offset) or not fits64(self.log_append_time_ms):
            return -1
        total += 22
        if version >= 5:
            if not fits64(self.log_start_offset):
                return -1
            total += 8
        if version >= 8:
            if self.record_errors is None:
                return -1
            else:
                total += length_bytes(len(self.record_errors), flexible)
                for item_BatchIndexAndErrorMessage in self.record_errors:
                    if item_BatchIndexAndErrorMessage is None:
                        return -1
                    inner = item_BatchIndexAndErrorMessage.size(version)
                    if inner < 0:
                        return -1
                    total += inner
        if version >= 8:
            n = string_size(self.error_message, flexible, version >= 8)
            if n < 0:
                return -1
            total += n
        if flexible:
            total += 1
            if version >= 10 and (self._current_leader is not None and not self._current_leader.is_default()):
                inner = self._current_leader.size(version)
                if inner < 0:
                    return -1
                total += 1 + uvarint_bytes(inner) + inner
        if (not (version >= 10)) and (self._current_leader is not None and not self._current_leader.is_default()):
            return -1
        return total

    def write(self, out, at, version):
        flexible = version >= 9
        put32(out, at, self.index)
        put16(out, at + 4, self.error_code)
        put64(out, at + 6, self.base_offset)
        put64(out, at + 14, self.log_append_time_ms)
        at += 22
        if version >= 5:
            put64(out, at, self.log_start_offset)
            at += 8
        if version >= 8:
            at = put_length(out, at, len(self.record_errors), flexible)
            for item_BatchIndexAndErrorMessage in self.record_errors:
                at = item_BatchIndexAndErrorMessage.write(out, at, version)
        if version >= 8:
            at = put_string(out, at, self.error_message, flexible)
        if flexible:
            n = 0
            if version >= 10 and (self._current_leader is not None and not self._current_leader.is_default()):
                n += 1
            put8(out, at, n)
            at += 1
            if n:
                if version >= 10 and (self._current_leader is not None and not self._current_leader.is_default()):
                    inner = self._current_leader.size(version)
                    at = put_uvarint(out, at, 0)
                    at = put_uvarint(out, at, inner)
                    at = self._current_leader.write(out, at, version)
        return at

    def count_errors(self, errors):
        none = 0
        if self.error_code == 0:
            none += 1
        else:
            errors[self.error_code] += 1
        return none


class TopicProduceResponse:
    __slots__ = ('name', 'topic_id', 'partition_responses',)
    __struct_fields__ = ('name', 'topic_id', 'partition_responses',)

    def __init__(self, name='', topic_id=ZERO_UUID, partition_responses=...):
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is ... else partition_responses

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 9
        if version <= 12:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.name = text(data, at, n)
            at += n
        if not (version <= 12):
            self.name = ''
        if version >= 13:
            if end - at < 16:
                return -1
            self.topic_id = uuid(data, at)
            at += 16
        if not (version >= 13):
            self.topic_id = ZERO_UUID
        n, at = array_length(data, at, end, flexible, 22)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_PartitionProduceResponse = PartitionProduceResponse.__new__(PartitionProduceResponse)
            at = item_PartitionProduceResponse.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_PartitionProduceResponse)
        self.partition_responses = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 9
        total = 0
        if version <= 12:
            n = string_size(self.name, flexible, False)
            if n < 0:
                return -1
            total += n
        if version >= 13:
            if not is_uuid(self.topic_id):
                return -1
            total += 16
        if self.partition_responses is None:
            return -1
        else:
            total += length_bytes(len(self.partition_responses), flexible)
            for item_PartitionProduceResponse in self.partition_responses:
                if item_PartitionProduceResponse is None:
                    return -1
                inner = item_PartitionProduceResponse.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 9
        if version <= 12:
            at = put_string(out, at, self.name, flexible)
        if version >= 13:
            put_uuid(out, at, self.topic_id)
            at += 16
        at = put_length(out, at, len(self.partition_responses), flexible)
        for item_PartitionProduceResponse in self.partition_responses:
            at = item_PartitionProduceResponse.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.partition_responses is not None:
            for item_PartitionProduceResponse in self.partition_responses:
                none += item_PartitionProduceResponse.count_errors(errors)
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
        flexible = version >= 9
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
        flexible = version >= 9
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
        flexible = version >= 9
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


class ProduceResponse(TypedMessage):
    __slots__ = ('responses', 'throttle_time_ms', 'node_endpoints',)
    __struct_fields__ = ('responses', 'throttle_time_ms', 'node_endpoints',)
    api_key = 0
    versions = VersionRange(3, 13)
    flexible = VersionRange(9, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, responses=..., throttle_time_ms=0, node_endpoints=...):
        self.responses = [] if responses is ... else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is ... else node_endpoints

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 3 or version > 13:
            return -1
        flexible = version >= 9
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_TopicProduceResponse = TopicProduceResponse.__new__(TopicProduceResponse)
            at = item_TopicProduceResponse.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_TopicProduceResponse)
        self.responses = items
        if end - at < 4:
            return -1
        self.throttle_time_ms = int32(data, at)
        at += 4
        self.node_endpoints = []
        if flexible:
            if at < end and data[at] == 0:
                at += 1
            else:
                at = self.read_tags(data, at, end, version)
        return at

    def read_tags(self, data, at, end, version):
        flexible = version >= 9
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
            if tag == 0 and version >= 10:
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
        if version < 3 or version > 13:
            return -1
        flexible = version >= 9
        total = 0
        if self.responses is None:
            return -1
        else:
            total += length_bytes(len(self.responses), flexible)
            for item_TopicProduceResponse in self.responses:
                if item_TopicProduceResponse is None:
                    return -1
                inner = item_TopicProduceResponse.size(version)
                if inner < 0:
                    return -1
                total += inner
        if not fits32(self.throttle_time_ms):
            return -1
        total += 4
        if flexible:
            total += 1
            if version >= 10 and self.node_endpoints != []:
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
        if (not (version >= 10)) and self.node_endpoints != []:
            return -1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 9
        at = put_length(out, at, len(self.responses), flexible)
        for item_TopicProduceResponse in self.responses:
            at = item_TopicProduceResponse.write(out, at, version)
        put32(out, at, self.throttle_time_ms)
        at += 4
        if flexible:
            n = 0
            if version >= 10 and self.node_endpoints != []:
                n += 1
            put8(out, at, n)
            at += 1
            if n:
                if version >= 10 and self.node_endpoints != []:
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
        if self.responses is not None:
            for item_TopicProduceResponse in self.responses:
                none += item_TopicProduceResponse.count_errors(errors)
        return none
