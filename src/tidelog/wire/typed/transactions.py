# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=False
# mypy: ignore-errors
"""The typed messages of `tidelog.wire.messages.transactions`. Written by tools/typed_messages.py; not to be edited."""

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
        all_fit32,
        array_length,
        fits16,
        fits32,
        fits64,
        int16,
        int32,
        int32_list,
        int64,
        length_bytes,
        put8,
        put16,
        put32,
        put64,
        put_int32_list,
        put_length,
        put_string,
        skip_tags,
        string_length,
        string_size,
        text,
    )
else:
    from tidelog.wire.typed.fields import (
        all_fit32,
        array_length,
        fits16,
        fits32,
        fits64,
        int16,
        int32,
        int32_list,
        int64,
        length_bytes,
        put8,
        put16,
        put32,
        put64,
        put_int32_list,
        put_length,
        put_string,
        skip_tags,
        string_length,
        string_size,
        text,
    )


class AddPartitionsToTxnTopic:
    __slots__ = ('name', 'partitions',)
    __struct_fields__ = ('name', 'partitions',)

    def __init__(self, name='', partitions=...):
        self.name = name
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 3
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.name = text(data, at, n)
        at += n
        n, at = array_length(data, at, end, flexible, 4)
        if n < 0:
            return -1
        self.partitions = int32_list(data, at, n)
        at += 4 * n
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 3
        total = 0
        n = string_size(self.name, flexible, False)
        if n < 0:
            return -1
        total += n
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
        flexible = version >= 3
        at = put_string(out, at, self.name, flexible)
        at = put_length(out, at, len(self.partitions), flexible)
        at = put_int32_list(out, at, self.partitions)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class AddPartitionsToTxnTransaction:
    __slots__ = ('transactional_id', 'producer_id', 'producer_epoch', 'verify_only', 'topics',)
    __struct_fields__ = ('transactional_id', 'producer_id', 'producer_epoch', 'verify_only', 'topics',)

    def __init__(self, transactional_id='', producer_id=0, producer_epoch=0, verify_only=False, topics=...):
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is ... else topics

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 3
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.transactional_id = text(data, at, n)
        at += n
        if end - at < 11:
            return -1
        self.producer_id = int64(data, at)
        self.producer_epoch = int16(data, at + 8)
        self.verify_only = data[at + 10] != 0
        at += 11
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_AddPartitionsToTxnTopic = AddPartitionsToTxnTopic.__new__(AddPartitionsToTxnTopic)
            at = item_AddPartitionsToTxnTopic.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_AddPartitionsToTxnTopic)
        self.topics = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 3
        total = 0
        n = string_size(self.transactional_id, flexible, False)
        if n < 0:
            return -1
        total += n
        if not fits64(self.producer_id) or not fits16(self.producer_epoch):
            return -1
        total += 11
        if self.topics is None:
            return -1
        else:
            total += length_bytes(len(self.topics), flexible)
            for item_AddPartitionsToTxnTopic in self.topics:
                if item_AddPartitionsToTxnTopic is None:
                    return -1
                inner = item_AddPartitionsToTxnTopic.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 3
        at = put_string(out, at, self.transactional_id, flexible)
        put64(out, at, self.producer_id)
        put16(out, at + 8, self.producer_epoch)
        put8(out, at + 10, 1 if self.verify_only else 0)
        at += 11
        at = put_length(out, at, len(self.topics), flexible)
        for item_AddPartitionsToTxnTopic in self.topics:
            at = item_AddPartitionsToTxnTopic.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class AddPartitionsToTxnRequest(TypedMessage):
    __slots__ = ('transactions', 'v3_and_below_transactional_id', 'v3_and_below_producer_id', 'v3_and_below_producer_epoch', 'v3_and_below_topics',)
    __struct_fields__ = ('transactions', 'v3_and_below_transactional_id', 'v3_and_below_producer_id', 'v3_and_below_producer_epoch', 'v3_and_below_topics',)
    api_key = 24
    versions = VersionRange(0, 5)
    flexible = VersionRange(3, 32767)
    listener_kinds = ('broker',)
    latest_version_unstable = False

    def __init__(self, transactions=..., v3_and_below_transactional_id='', v3_and_below_producer_id=0, v3_and_below_producer_epoch=0, v3_and_below_topics=...):
        self.transactions = [] if transactions is ... else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is ... else v3_and_below_topics

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        if version >= 4:
            n, at = array_length(data, at, end, flexible, 14)
            if n < 0:
                return -1
            items = []
            while n > 0:
                n -= 1
                item_AddPartitionsToTxnTransaction = AddPartitionsToTxnTransaction.__new__(AddPartitionsToTxnTransaction)
                at = item_AddPartitionsToTxnTransaction.read(data, at, end, version)
                if at < 0:
                    return -1
                items.append(item_AddPartitionsToTxnTransaction)
            self.transactions = items
        if not (version >= 4):
            self.transactions = []
        if version <= 3:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.v3_and_below_transactional_id = text(data, at, n)
            at += n
        if not (version <= 3):
            self.v3_and_below_transactional_id = ''
        if version <= 3:
            if end - at < 10:
                return -1
            self.v3_and_below_producer_id = int64(data, at)
            self.v3_and_below_producer_epoch = int16(data, at + 8)
            at += 10
        if not (version <= 3):
            self.v3_and_below_producer_id = 0
            self.v3_and_below_producer_epoch = 0
        if version <= 3:
            n, at = array_length(data, at, end, flexible, 3)
            if n < 0:
                return -1
            items = []
            while n > 0:
                n -= 1
                item_AddPartitionsToTxnTopic = AddPartitionsToTxnTopic.__new__(AddPartitionsToTxnTopic)
                at = item_AddPartitionsToTxnTopic.read(data, at, end, version)
                if at < 0:
                    return -1
                items.append(item_AddPartitionsToTxnTopic)
            self.v3_and_below_topics = items
        if not (version <= 3):
            self.v3_and_below_topics = []
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        total = 0
        if version >= 4:
            if self.transactions is None:
                return -1
            else:
                total += length_bytes(len(self.transactions), flexible)
                for item_AddPartitionsToTxnTransaction in self.transactions:
                    if item_AddPartitionsToTxnTransaction is None:
                        return -1
                    inner = item_AddPartitionsToTxnTransaction.size(version)
                    if inner < 0:
                        return -1
                    total += inner
        if not (version >= 4) and self.transactions != []:
            return -1
        if version <= 3:
            n = string_size(self.v3_and_below_transactional_id, flexible, False)
            if n < 0:
                return -1
            total += n
        if not (version <= 3) and self.v3_and_below_transactional_id != '':
            return -1
        if version <= 3:
            if not fits64(self.v3_and_below_producer_id) or not fits16(self.v3_and_below_producer_epoch):
                return -1
            total += 10
        if not (version <= 3) and self.v3_and_below_producer_id != 0:
            return -1
        if not (version <= 3) and self.v3_and_below_producer_epoch != 0:
            return -1
        if version <= 3:
            if self.v3_and_below_topics is None:
                return -1
            else:
                total += length_bytes(len(self.v3_and_below_topics), flexible)
                for item_AddPartitionsToTxnTopic in self.v3_and_below_topics:
                    if item_AddPartitionsToTxnTopic is None:
                        return -1
                    inner = item_AddPartitionsToTxnTopic.size(version)
                    if inner < 0:
                        return -1
                    total += inner
        if not (version <= 3) and self.v3_and_below_topics != []:
            return -1
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 3
        if version >= 4:
            at = put_length(out, at, len(self.transactions), flexible)
            for item_AddPartitionsToTxnTransaction in self.transactions:
                at = item_AddPartitionsToTxnTransaction.write(out, at, version)
        if version <= 3:
            at = put_string(out, at, self.v3_and_below_transactional_id, flexible)
        if version <= 3:
            put64(out, at, self.v3_and_below_producer_id)
            put16(out, at + 8, self.v3_and_below_producer_epoch)
            at += 10
        if version <= 3:
            at = put_length(out, at, len(self.v3_and_below_topics), flexible)
            for item_AddPartitionsToTxnTopic in self.v3_and_below_topics:
                at = item_AddPartitionsToTxnTopic.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class AddPartitionsToTxnPartitionResult:
    __slots__ = ('partition_index', 'partition_error_code',)
    __struct_fields__ = ('partition_index', 'partition_error_code',)

    def __init__(self, partition_index=0, partition_error_code=0):
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 3
        if end - at < 6:
            return -1
        self.partition_index = int32(data, at)
        self.partition_error_code = int16(data, at + 4)
        at += 6
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 3
        total = 0
        if not fits32(self.partition_index) or not fits16(self.partition_error_code):
            return -1
        total += 6
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 3
        put32(out, at, self.partition_index)
        put16(out, at + 4, self.partition_error_code)
        at += 6
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class AddPartitionsToTxnTopicResult:
    __slots__ = ('name', 'results_by_partition',)
    __struct_fields__ = ('name', 'results_by_partition',)

    def __init__(self, name='', results_by_partition=...):
        self.name = name
        self.results_by_partition = [] if results_by_partition is ... else results_by_partition

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 3
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.name = text(data, at, n)
        at += n
        n, at = array_length(data, at, end, flexible, 6)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_AddPartitionsToTxnPartitionResult = AddPartitionsToTxnPartitionResult.__new__(AddPartitionsToTxnPartitionResult)
            at = item_AddPartitionsToTxnPartitionResult.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_AddPartitionsToTxnPartitionResult)
        self.results_by_partition = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 3
        total = 0
        n = string_size(self.name, flexible, False)
        if n < 0:
            return -1
        total += n
        if self.results_by_partition is None:
            return -1
        else:
            total += length_bytes(len(self.results_by_partition), flexible)
            for item_AddPartitionsToTxnPartitionResult in self.results_by_partition:
                if item_AddPartitionsToTxnPartitionResult is None:
                    return -1
                inner = item_AddPartitionsToTxnPartitionResult.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 3
        at = put_string(out, at, self.name, flexible)
        at = put_length(out, at, len(self.results_by_partition), flexible)
        for item_AddPartitionsToTxnPartitionResult in self.results_by_partition:
            at = item_AddPartitionsToTxnPartitionResult.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class AddPartitionsToTxnResult:
    __slots__ = ('transactional_id', 'topic_results',)
    __struct_fields__ = ('transactional_id', 'topic_results',)

    def __init__(self, transactional_id='', topic_results=...):
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is ... else topic_results

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 3
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.transactional_id = text(data, at, n)
        at += n
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_AddPartitionsToTxnTopicResult = AddPartitionsToTxnTopicResult.__new__(AddPartitionsToTxnTopicResult)
            at = item_AddPartitionsToTxnTopicResult.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_AddPartitionsToTxnTopicResult)
        self.topic_results = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 3
        total = 0
        n = string_size(self.transactional_id, flexible, False)
        if n < 0:
            return -1
        total += n
        if self.topic_results is None:
            return -1
        else:
            total += length_bytes(len(self.topic_results), flexible)
            for item_AddPartitionsToTxnTopicResult in self.topic_results:
                if item_AddPartitionsToTxnTopicResult is None:
                    return -1
                inner = item_AddPartitionsToTxnTopicResult.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 3
        at = put_string(out, at, self.transactional_id, flexible)
        at = put_length(out, at, len(self.topic_results), flexible)
        for item_AddPartitionsToTxnTopicResult in self.topic_results:
            at = item_AddPartitionsToTxnTopicResult.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class AddPartitionsToTxnResponse(TypedMessage):
    __slots__ = ('throttle_time_ms', 'error_code', 'results_by_transaction', 'results_by_topic_v3_and_below',)
    __struct_fields__ = ('throttle_time_ms', 'error_code', 'results_by_transaction', 'results_by_topic_v3_and_below',)
    api_key = 24
    versions = VersionRange(0, 5)
    flexible = VersionRange(3, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, throttle_time_ms=0, error_code=0, results_by_transaction=..., results_by_topic_v3_and_below=...):
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is ... else results_by_transaction
        self.results_by_topic_v3_and_below = [] if results_by_topic_v3_and_below is ... else results_by_topic_v3_and_below

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        if end - at < 4:
            return -1
        self.throttle_time_ms = int32(data, at)
        at += 4
        if version >= 4:
            if end - at < 2:
                return -1
            self.error_code = int16(data, at)
            at += 2
        if not (version >= 4):
            self.error_code = 0
        if version >= 4:
            n, at = array_length(data, at, end, flexible, 3)
            if n < 0:
                return -1
            items = []
            while n > 0:
                n -= 1
                item_AddPartitionsToTxnResult = AddPartitionsToTxnResult.__new__(AddPartitionsToTxnResult)
                at = item_AddPartitionsToTxnResult.read(data, at, end, version)
                if at < 0:
                    return -1
                items.append(item_AddPartitionsToTxnResult)
            self.results_by_transaction = items
        if not (version >= 4):
            self.results_by_transaction = []
        if version <= 3:
            n, at = array_length(data, at, end, flexible, 3)
            if n < 0:
                return -1
            items = []
            while n > 0:
                n -= 1
                item_AddPartitionsToTxnTopicResult = AddPartitionsToTxnTopicResult.__new__(AddPartitionsToTxnTopicResult)
                at = item_AddPartitionsToTxnTopicResult.read(data, at, end, version)
                if at < 0:
                    return -1
                items.append(item_AddPartitionsToTxnTopicResult)
            self.results_by_topic_v3_and_below = items
        if not (version <= 3):
            self.results_by_topic_v3_and_below = []
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        total = 0
        if not fits32(self.throttle_time_ms):
            return -1
        total += 4
        if version >= 4:
            if not fits16(self.error_code):
                return -1
            total += 2
        if version >= 4:
            if self.results_by_transaction is None:
                return -1
            else:
                total += length_bytes(len(self.results_by_transaction), flexible)
                for item_AddPartitionsToTxnResult in self.results_by_transaction:
                    if item_AddPartitionsToTxnResult is None:
                        return -1
                    inner = item_AddPartitionsToTxnResult.size(version)
                    if inner < 0:
                        return -1
                    total += inner
        if not (version >= 4) and self.results_by_transaction != []:
            return -1
        if version <= 3:
            if self.results_by_topic_v3_and_below is None:
                return -1
            else:
                total += length_bytes(len(self.results_by_topic_v3_and_below), flexible)
                for item_AddPartitionsToTxnTopicResult in self.results_by_topic_v3_and_below:
                    if item_AddPartitionsToTxnTopicResult is None:
                        return -1
                    inner = item_AddPartitionsToTxnTopicResult.size(version)
                    if inner < 0:
                        return -1
                    total += inner
        if not (version <= 3) and self.results_by_topic_v3_and_below != []:
            return -1
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 3
        put32(out, at, self.throttle_time_ms)
        at += 4
        if version >= 4:
            put16(out, at, self.error_code)
            at += 2
        if version >= 4:
            at = put_length(out, at, len(self.results_by_transaction), flexible)
            for item_AddPartitionsToTxnResult in self.results_by_transaction:
                at = item_AddPartitionsToTxnResult.write(out, at, version)
        if version <= 3:
            at = put_length(out, at, len(self.results_by_topic_v3_and_below), flexible)
            for item_AddPartitionsToTxnTopicResult in self.results_by_topic_v3_and_below:
                at = item_AddPartitionsToTxnTopicResult.write(out, at, version)
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


class EndTxnRequest(TypedMessage):
    __slots__ = ('transactional_id', 'producer_id', 'producer_epoch', 'committed',)
    __struct_fields__ = ('transactional_id', 'producer_id', 'producer_epoch', 'committed',)
    api_key = 26
    versions = VersionRange(0, 5)
    flexible = VersionRange(3, 32767)
    listener_kinds = ('broker',)
    latest_version_unstable = False

    def __init__(self, transactional_id='', producer_id=0, producer_epoch=0, committed=False):
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.transactional_id = text(data, at, n)
        at += n
        if end - at < 11:
            return -1
        self.producer_id = int64(data, at)
        self.producer_epoch = int16(data, at + 8)
        self.committed = data[at + 10] != 0
        at += 11
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        total = 0
        n = string_size(self.transactional_id, flexible, False)
        if n < 0:
            return -1
        total += n
        if not fits64(self.producer_id) or not fits16(self.producer_epoch):
            return -1
        total += 11
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 3
        at = put_string(out, at, self.transactional_id, flexible)
        put64(out, at, self.producer_id)
        put16(out, at + 8, self.producer_epoch)
        put8(out, at + 10, 1 if self.committed else 0)
        at += 11
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class EndTxnResponse(TypedMessage):
    __slots__ = ('throttle_time_ms', 'error_code', 'producer_id', 'producer_epoch',)
    __struct_fields__ = ('throttle_time_ms', 'error_code', 'producer_id', 'producer_epoch',)
    api_key = 26
    versions = VersionRange(0, 5)
    flexible = VersionRange(3, 32767)
    listener_kinds = ()
    latest_version_unstable = False

    def __init__(self, throttle_time_ms=0, error_code=0, producer_id=-1, producer_epoch=-1):
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        if end - at < 6:
            return -1
        self.throttle_time_ms = int32(data, at)
        self.error_code = int16(data, at + 4)
        at += 6
        if version >= 5:
            if end - at < 10:
                return -1
            self.producer_id = int64(data, at)
            self.producer_epoch = int16(data, at + 8)
            at += 10
        if not (version >= 5):
            self.producer_id = -1
            self.producer_epoch = -1
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        total = 0
        if not fits32(self.throttle_time_ms) or not fits16(self.error_code):
            return -1
        total += 6
        if version >= 5:
            if not fits64(self.producer_id) or not fits16(self.producer_epoch):
                return -1
            total += 10
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 3
        put32(out, at, self.throttle_time_ms)
        put16(out, at + 4, self.error_code)
        at += 6
        if version >= 5:
            put64(out, at, self.producer_id)
            put16(out, at + 8, self.producer_epoch)
            at += 10
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


class TxnOffsetCommitRequestPartition:
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
        flexible = version >= 3
        if end - at < 12:
            return -1
        self.partition_index = int32(data, at)
        self.committed_offset = int64(data, at + 4)
        at += 12
        if version >= 2:
            if end - at < 4:
                return -1
            self.committed_leader_epoch = int32(data, at)
            at += 4
        if not (version >= 2):
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
        flexible = version >= 3
        total = 0
        if not fits32(self.partition_index) or not fits64(self.committed_offset):
            return -1
        total += 12
        if version >= 2:
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
        flexible = version >= 3
        put32(out, at, self.partition_index)
        put64(out, at + 4, self.committed_offset)
        at += 12
        if version >= 2:
            put32(out, at, self.committed_leader_epoch)
            at += 4
        at = put_string(out, at, self.committed_metadata, flexible)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class TxnOffsetCommitRequestTopic:
    __slots__ = ('name', 'partitions',)
    __struct_fields__ = ('name', 'partitions',)

    def __init__(self, name='', partitions=...):
        self.name = name
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 3
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.name = text(data, at, n)
        at += n
        n, at = array_length(data, at, end, flexible, 14)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_TxnOffsetCommitRequestPartition = TxnOffsetCommitRequestPartition.__new__(TxnOffsetCommitRequestPartition)
            at = item_TxnOffsetCommitRequestPartition.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_TxnOffsetCommitRequestPartition)
        self.partitions = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 3
        total = 0
        n = string_size(self.name, flexible, False)
        if n < 0:
            return -1
        total += n
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), flexible)
            for item_TxnOffsetCommitRequestPartition in self.partitions:
                if item_TxnOffsetCommitRequestPartition is None:
                    return -1
                inner = item_TxnOffsetCommitRequestPartition.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 3
        at = put_string(out, at, self.name, flexible)
        at = put_length(out, at, len(self.partitions), flexible)
        for item_TxnOffsetCommitRequestPartition in self.partitions:
            at = item_TxnOffsetCommitRequestPartition.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class TxnOffsetCommitRequest(TypedMessage):
    __slots__ = ('transactional_id', 'group_id', 'producer_id', 'producer_epoch', 'generation_id', 'member_id', 'group_instance_id', 'topics',)
    __struct_fields__ = ('transactional_id', 'group_id', 'producer_id', 'producer_epoch', 'generation_id', 'member_id', 'group_instance_id', 'topics',)
    api_key = 28
    versions = VersionRange(0, 5)
    flexible = VersionRange(3, 32767)
    listener_kinds = ('broker',)
    latest_version_unstable = False

    def __init__(self, transactional_id='', group_id='', producer_id=0, producer_epoch=0, generation_id=-1, member_id='', group_instance_id=None, topics=...):
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is ... else topics

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version, frame):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.transactional_id = text(data, at, n)
        at += n
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.group_id = text(data, at, n)
        at += n
        if end - at < 10:
            return -1
        self.producer_id = int64(data, at)
        self.producer_epoch = int16(data, at + 8)
        at += 10
        if version >= 3:
            if end - at < 4:
                return -1
            self.generation_id = int32(data, at)
            at += 4
        if not (version >= 3):
            self.generation_id = -1
        if version >= 3:
            n, at = string_length(data, at, end, flexible)
            if n < 0:
                return -1
            self.member_id = text(data, at, n)
            at += n
        if not (version >= 3):
            self.member_id = ''
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
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_TxnOffsetCommitRequestTopic = TxnOffsetCommitRequestTopic.__new__(TxnOffsetCommitRequestTopic)
            at = item_TxnOffsetCommitRequestTopic.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_TxnOffsetCommitRequestTopic)
        self.topics = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        total = 0
        n = string_size(self.transactional_id, flexible, False)
        if n < 0:
            return -1
        total += n
        n = string_size(self.group_id, flexible, False)
        if n < 0:
            return -1
        total += n
        if not fits64(self.producer_id) or not fits16(self.producer_epoch):
            return -1
        total += 10
        if version >= 3:
            if not fits32(self.generation_id):
                return -1
            total += 4
        if not (version >= 3) and self.generation_id != -1:
            return -1
        if version >= 3:
            n = string_size(self.member_id, flexible, False)
            if n < 0:
                return -1
            total += n
        if not (version >= 3) and self.member_id != '':
            return -1
        if version >= 3:
            n = string_size(self.group_instance_id, flexible, version >= 3)
            if n < 0:
                return -1
            total += n
        if not (version >= 3) and self.group_instance_id is not None:
            return -1
        if self.topics is None:
            return -1
        else:
            total += length_bytes(len(self.topics), flexible)
            for item_TxnOffsetCommitRequestTopic in self.topics:
                if item_TxnOffsetCommitRequestTopic is None:
                    return -1
                inner = item_TxnOffsetCommitRequestTopic.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 3
        at = put_string(out, at, self.transactional_id, flexible)
        at = put_string(out, at, self.group_id, flexible)
        put64(out, at, self.producer_id)
        put16(out, at + 8, self.producer_epoch)
        at += 10
        if version >= 3:
            put32(out, at, self.generation_id)
            at += 4
        if version >= 3:
            at = put_string(out, at, self.member_id, flexible)
        if version >= 3:
            at = put_string(out, at, self.group_instance_id, flexible)
        at = put_length(out, at, len(self.topics), flexible)
        for item_TxnOffsetCommitRequestTopic in self.topics:
            at = item_TxnOffsetCommitRequestTopic.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at


class TxnOffsetCommitResponsePartition:
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
        flexible = version >= 3
        if end - at < 6:
            return -1
        self.partition_index = int32(data, at)
        self.error_code = int16(data, at + 4)
        at += 6
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 3
        total = 0
        if not fits32(self.partition_index) or not fits16(self.error_code):
            return -1
        total += 6
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 3
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


class TxnOffsetCommitResponseTopic:
    __slots__ = ('name', 'partitions',)
    __struct_fields__ = ('name', 'partitions',)

    def __init__(self, name='', partitions=...):
        self.name = name
        self.partitions = [] if partitions is ... else partitions

    def __eq__(self, other):
        return is_same(self, other)

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return copied(self)

    def read(self, data, at, end, version):
        flexible = version >= 3
        n, at = string_length(data, at, end, flexible)
        if n < 0:
            return -1
        self.name = text(data, at, n)
        at += n
        n, at = array_length(data, at, end, flexible, 6)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_TxnOffsetCommitResponsePartition = TxnOffsetCommitResponsePartition.__new__(TxnOffsetCommitResponsePartition)
            at = item_TxnOffsetCommitResponsePartition.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_TxnOffsetCommitResponsePartition)
        self.partitions = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version):
        flexible = version >= 3
        total = 0
        n = string_size(self.name, flexible, False)
        if n < 0:
            return -1
        total += n
        if self.partitions is None:
            return -1
        else:
            total += length_bytes(len(self.partitions), flexible)
            for item_TxnOffsetCommitResponsePartition in self.partitions:
                if item_TxnOffsetCommitResponsePartition is None:
                    return -1
                inner = item_TxnOffsetCommitResponsePartition.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version):
        flexible = version >= 3
        at = put_string(out, at, self.name, flexible)
        at = put_length(out, at, len(self.partitions), flexible)
        for item_TxnOffsetCommitResponsePartition in self.partitions:
            at = item_TxnOffsetCommitResponsePartition.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.partitions is not None:
            for item_TxnOffsetCommitResponsePartition in self.partitions:
                none += item_TxnOffsetCommitResponsePartition.count_errors(errors)
        return none


class TxnOffsetCommitResponse(TypedMessage):
    __slots__ = ('throttle_time_ms', 'topics',)
    __struct_fields__ = ('throttle_time_ms', 'topics',)
    api_key = 28
    versions = VersionRange(0, 5)
    flexible = VersionRange(3, 32767)
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
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        if end - at < 4:
            return -1
        self.throttle_time_ms = int32(data, at)
        at += 4
        n, at = array_length(data, at, end, flexible, 3)
        if n < 0:
            return -1
        items = []
        while n > 0:
            n -= 1
            item_TxnOffsetCommitResponseTopic = TxnOffsetCommitResponseTopic.__new__(TxnOffsetCommitResponseTopic)
            at = item_TxnOffsetCommitResponseTopic.read(data, at, end, version)
            if at < 0:
                return -1
            items.append(item_TxnOffsetCommitResponseTopic)
        self.topics = items
        if flexible:
            at = skip_tags(data, at, end)
        return at

    def size(self, version, copied_max):
        if version < 0 or version > 5:
            return -1
        flexible = version >= 3
        total = 0
        if not fits32(self.throttle_time_ms):
            return -1
        total += 4
        if self.topics is None:
            return -1
        else:
            total += length_bytes(len(self.topics), flexible)
            for item_TxnOffsetCommitResponseTopic in self.topics:
                if item_TxnOffsetCommitResponseTopic is None:
                    return -1
                inner = item_TxnOffsetCommitResponseTopic.size(version)
                if inner < 0:
                    return -1
                total += inner
        if flexible:
            total += 1
        return total

    def write(self, out, at, version, copied_max, cuts):
        flexible = version >= 3
        put32(out, at, self.throttle_time_ms)
        at += 4
        at = put_length(out, at, len(self.topics), flexible)
        for item_TxnOffsetCommitResponseTopic in self.topics:
            at = item_TxnOffsetCommitResponseTopic.write(out, at, version)
        if flexible:
            put8(out, at, 0)
            at += 1
        return at

    def count_errors(self, errors):
        none = 0
        if self.topics is not None:
            for item_TxnOffsetCommitResponseTopic in self.topics:
                none += item_TxnOffsetCommitResponseTopic.count_errors(errors)
        return none
