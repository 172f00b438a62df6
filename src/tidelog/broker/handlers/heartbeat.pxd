# The types of `heartbeat`, for its compiled twin.

cimport cython

from tidelog.broker.groups.group_coordinator cimport GroupCoordinator
from tidelog.broker.requests.caller cimport Caller
from tidelog.coordination.active_shard cimport ActiveShard
from tidelog.coordination.group_shard cimport GroupShard
from tidelog.wire.typed.groups_classic cimport HeartbeatRequest


@cython.locals(active=ActiveShard, shard=GroupShard)
cdef object _heartbeat(HeartbeatRequest request, Caller caller, GroupCoordinator groups)
