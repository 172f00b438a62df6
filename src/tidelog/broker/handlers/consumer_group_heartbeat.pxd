# The types of `consumer_group_heartbeat`, for its compiled twin.

cimport cython

from tidelog.broker.groups.group_coordinator cimport GroupCoordinator
from tidelog.broker.requests.caller cimport Caller
from tidelog.coordination.active_shard cimport ActiveShard
from tidelog.coordination.group_shard cimport GroupShard
from tidelog.wire.typed.consumer_groups cimport ConsumerGroupHeartbeatRequest


@cython.locals(active=ActiveShard, shard=GroupShard)
cdef object _heartbeat(ConsumerGroupHeartbeatRequest request, Caller caller, GroupCoordinator groups)
