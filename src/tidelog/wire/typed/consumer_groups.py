# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=False
# mypy: ignore-errors
"""The typed messages of `tidelog.wire.messages.consumer_groups`. Written by tools/typed_messages.py; not to be edited."""

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
        fits16,
        fits32,
        int8,
        int16,
        int32,
        int32_list,
        is_uuid,
        length_bytes,
        put8,
        put16,
        put32,
        put_int32_list,
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
        all_fit32,
        array_length,
        fits16,
        fits32,
        int8,
        int16,
        int32,
        int32_list,
        is_uuid,
        length_bytes,
        put8,
        put16,
        put32,
        put_int32_list,
        put_length,
        put_string,
        put_uuid,
        skip_tags,
        string_length,
        string_size,
        text,
        uuid,
    )


class TopicPartitions:
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


class ConsumerGroupHeartbeatRequest(TypedMessage):
    __slots__ = ('group_id', 'member_id', 'member_epoch', 'instance_id', 'rack_id', 'rebalance_timeout_ms', 'subscribed_topic_names', 'subscribed_topic_regex', 'server_assignor', 'topic_partitions',)
    __struct_fields__ = ('group_id', 'member_id', 'member_epoch', 'instance_id', 'rack_id', 'rebalance_timeout_ms', 'subscribed_topic_names', 'subscribed_topic_regex', 'server_assignor', 'topic_partitions',)
    api_key = 68
    versions = VersionRange(0, 1)
    flexible = VersionRange(0, 32767)
    listener_kinds = ('broker',)
    latest_version_unstable = False

    def __init__(self, group_id='', member_id='', member_epoch=0, instance_id=None, rack_id=None, rebalance_timeout_ms=-1, subscribed_topic_names=None, subscribed_topic_regex=None, server_assignor=None, topic_partitions=None):
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 1:
            return -1
        n, at = string_length(data, at, end, True)
        if n < 0:
            return -1
        self.group_id = text(data, at, n)
        at += n
        n, at = string_length(data, at, end, True)
        if n < 0:
            return -1
        self.member_id = text(data, at, n)
        at += n
        if end - at < 4:
            return -1
        self.member_epoch = int32(data, at)
        at += 4
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.instance_id = None
        else:
            self.instance_id = text(data, at, n)
            at += n
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.rack_id = None
        else:
            self.rack_id = text(data, at, n)
            at += n
        if end - at < 4:
            return -1
        self.rebalance_timeout_ms = int32(data, at)
        at += 4
        n, at = array_length(data, at, end, True, 1)
        if at < 0:
            return -1
        if n < 0:
            self.subscribed_topic_names = None
        else:
            items = []
            while n > 0:
                n -= 1
                m, at = string_length(data, at, end, True)
                if m < 0:
                    return -1
                items.append(text(data, at, m))
                at += m
            self.subscribed_topic_names = items
        if version >= 1:
            n, at = string_length(data, at, end, True)
            if at < 0 or (n < 0 and not (version >= 1)):
                return -1
            if n < 0:
                self.subscribed_topic_regex = None
            else:
                self.subscribed_topic_regex = text(data, at, n)
                at += n
        if not (version >= 1):
            self.subscribed_topic_regex = None
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.server_assignor = None
        else:
            self.server_assignor = text(data, at, n)
            at += n
        n, at = array_length(data, at, end, True, 18)
        if at < 0:
            return -1
        if n < 0:
            self.topic_partitions = None
        else:
            items = []
            while n > 0:
                n -= 1
                item_TopicPartitions = TopicPartitions.__new__(TopicPartitions)
                at = item_TopicPartitions.read(data, at, end, version)
                if at < 0:
                    return -1
                items.append(item_TopicPartitions)
            self.topic_partitions = items
        at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 1:
            return -1
        total = 0
        n = string_size(self.group_id, True, False)
        if n < 0:
            return -1
        total += n
        n = string_size(self.member_id, True, False)
        if n < 0:
            return -1
        total += n
        if not fits32(self.member_epoch):
            return -1
        total += 4
        n = string_size(self.instance_id, True, True)
        if n < 0:
            return -1
        total += n
        n = string_size(self.rack_id, True, True)
        if n < 0:
            return -1
        total += n
        if not fits32(self.rebalance_timeout_ms):
            return -1
        total += 4
        if self.subscribed_topic_names is None:
            total += length_bytes(-1, True)
        else:
            total += length_bytes(len(self.subscribed_topic_names), True)
            for text_item in self.subscribed_topic_names:
                n = string_size(text_item, True, False)
                if n < 0:
                    return -1
                total += n
        if version >= 1:
            n = string_size(self.subscribed_topic_regex, True, version >= 1)
            if n < 0:
                return -1
            total += n
        if not (version >= 1) and self.subscribed_topic_regex is not None:
            return -1
        n = string_size(self.server_assignor, True, True)
        if n < 0:
            return -1
        total += n
        if self.topic_partitions is None:
            total += length_bytes(-1, True)
        else:
            total += length_bytes(len(self.topic_partitions), True)
            for item_TopicPartitions in self.topic_partitions:
                if item_TopicPartitions is None:
                    return -1
                inner = item_TopicPartitions.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        at = put_string(out, at, self.group_id, True)
        at = put_string(out, at, self.member_id, True)
        put32(out, at, self.member_epoch)
        at += 4
        at = put_string(out, at, self.instance_id, True)
        at = put_string(out, at, self.rack_id, True)
        put32(out, at, self.rebalance_timeout_ms)
        at += 4
        if self.subscribed_topic_names is None:
            at = put_length(out, at, -1, True)
        else:
            at = put_length(out, at, len(self.subscribed_topic_names), True)
            for text_item in self.subscribed_topic_names:
                at = put_string(out, at, text_item, True)
        if version >= 1:
            at = put_string(out, at, self.subscribed_topic_regex, True)
        at = put_string(out, at, self.server_assignor, True)
        if self.topic_partitions is None:
            at = put_length(out, at, -1, True)
        else:
            at = put_length(out, at, len(self.topic_partitions), True)
            for item_TopicPartitions in self.topic_partitions:
                at = item_TopicPartitions.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at


class Assignment:
    __slots__ = ('topic_partitions',)
    __struct_fields__ = ('topic_partitions',)

    def __init__(self, topic_partitions=...):
        self.topic_partitions = [] if topic_partitions is ... else topic_partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        n, at = array_length(data, at, end, True, 18)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_TopicPartitions = TopicPartitions.__new__(TopicPartitions)
            at = item_TopicPartitions.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_TopicPartitions)
        self.topic_partitions = items
        at = skip_tags(data, at, end)
        return at

    def size(self, version):
        total = 0
        if self.topic_partitions is None:
            return -1
        else:
            total += length_bytes(len(self.topic_partitions), True)
            for item_TopicPartitions in self.topic_partitions:
                if item_TopicPartitions is None:
                    return -1
                inner = item_TopicPartitions.size(version)
                if inner < 0:
                    return -1
                total += inner
        total += 1
        return total

    def write(self, out, at, version):
        at = put_length(out, at, len(self.topic_partitions), True)
        for item_TopicPartitions in self.topic_partitions:
            at = item_TopicPartitions.write(out, at, version)
        put8(out, at, 0)
        at += 1
        return at


class ConsumerGroupHeartbeatResponse(TypedMessage):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'member_id', 'member_epoch', 'heartbeat_interval_ms', 'assignment',)
    __struct_fields__ = ('throttle_time_ms', 'error_code', 'error_message', 'member_id', 'member_epoch', 'heartbeat_interval_ms', 'assignment',)
    api_key = 68
    versions = VersionRange(0, 1)
    flexible = VersionRange(0, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, throttle_time_ms=0, error_code=0, error_message=None, member_id=None, member_epoch=0, heartbeat_interval_ms=0, assignment=None):
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 1:
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
        n, at = string_length(data, at, end, True)
        if at < 0:
            return -1
        if n < 0:
            self.member_id = None
        else:
            self.member_id = text(data, at, n)
            at += n
        if end - at < 8:
            return -1
        self.member_epoch = int32(data, at)
        self.heartbeat_interval_ms = int32(data, at + 4)
        at += 8
        if at >= end:
            return -1
        at += 1
        if int8(data, at - 1) < 0:
            self.assignment = None
        else:
            item_Assignment = Assignment.__new__(Assignment)
            at = item_Assignment.read(data, at, end, version)
            if at < 0:
                return -1
            self.assignment = item_Assignment
        at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 1:
            return -1
        total = 0
        if not fits32(self.throttle_time_ms) or not fits16(self.error_code):
            return -1
        total += 6
        n = string_size(self.error_message, True, True)
        if n < 0:
            return -1
        total += n
        n = string_size(self.member_id, True, True)
        if n < 0:
            return -1
        total += n
        if not fits32(self.member_epoch) or not fits32(self.heartbeat_interval_ms):
            return -1
        total += 8
        if self.assignment is None:
            total += 1
        else:
            total += 1
            inner = self.assignment.size(version)
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
        at = put_string(out, at, self.member_id, True)
        put32(out, at, self.member_epoch)
        put32(out, at + 4, self.heartbeat_interval_ms)
        at += 8
        if self.assignment is None:
            put8(out, at, -1)
            at += 1
        else:
            put8(out, at, 1)
            at += 1
            at = self.assignment.write(out, at, version)
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
