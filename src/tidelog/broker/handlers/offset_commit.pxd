# The types of `offset_commit`, for its compiled twin.

cimport cython

from tidelog.broker.groups.group_coordinator cimport GroupCoordinator
from tidelog.broker.requests.caller cimport Caller
from tidelog.coordination.active_shard cimport ActiveShard
from tidelog.coordination.group_shard cimport GroupShard
from tidelog.wire.typed.group_offsets cimport (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

cdef long long _TOPIC_ID_VERSION


@cython.locals(active=ActiveShard, shard=GroupShard)
cdef object _commit(OffsetCommitRequest request, Caller caller, GroupCoordinator groups)
@cython.locals(wanted=list, refused=list, topic=OffsetCommitRequestTopic)
cdef list _sort_out(OffsetCommitRequest request, Caller caller, object image)
cdef object _known(OffsetCommitRequestTopic topic, Caller caller, object image)
@cython.locals(each=OffsetCommitRequestPartition, there=list, missing=list)
cdef object _sort_out_topic(OffsetCommitRequestTopic topic, object partitions, list wanted, list refused)
