# The types of `fetch`, for its compiled twin.

cimport cython

from tidelog.broker.data.delayed_fetch cimport DelayedFetch
from tidelog.broker.data.fetch_entry cimport FetchEntry
from tidelog.broker.data.fetch_sessions cimport FetchSession, FetchSessions
from tidelog.broker.data.session_watch cimport SessionWatch
from tidelog.broker.quotas.meter cimport Meter
from tidelog.broker.requests.caller cimport Caller
from tidelog.replication.partition cimport Partition
from tidelog.replication.partitions cimport Partitions
from tidelog.wire.typed.fetch cimport FetchPartition, FetchRequest

cdef long _REPLICA_STATE_VERSION
cdef long _FOLLOWER_READ_VERSION
cdef long _TOPIC_ID_VERSION
cdef long long _READ_COMMITTED
cdef long long _LOOKS_INTO_REPLICAS


@cython.locals(
    version=long, uses_topic_ids=bint, sessions=FetchSessions, session=FetchSession, delayed=DelayedFetch, watch=SessionWatch,
    entry=FetchEntry)
cdef object _fetch(FetchRequest request, Caller caller, object node)
@cython.locals(replica_id=cython.longlong, epoch=cython.longlong, max_bytes=cython.longlong)
cdef object _set_limits(DelayedFetch delayed, FetchRequest request, FetchSessions sessions)
@cython.locals(bytes_max=cython.longlong)
cdef object _meter(DelayedFetch delayed, Meter meter)
@cython.locals(is_replica=bint, is_judged=bint, may_read=bint, entry=FetchEntry, partitions=Partitions, hosted=dict, partition=Partition)
cdef object _resolve(DelayedFetch delayed, Caller caller, object node)
@cython.locals(partition=Partition, entry=FetchEntry, is_allowed=bint, count=cython.longlong)
cdef bint _may_read(object topic, dict hosted, Caller caller, object node, list entries) except -1
cdef object _refusal(object topic, long long index, bint may_read, object node)
@cython.locals(entry=FetchEntry, partition=Partition)
cdef bint _send_elsewhere(DelayedFetch delayed, object closest) except -1
