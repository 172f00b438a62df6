# Offsets that only pass through, from the log or to it, stay Python's.

cimport cython
from tidelog.replication.partition cimport Partition
from tidelog.replication.roles cimport Following
from tidelog.storage.partition_log cimport PartitionLog

cdef object _NONE
cdef object _FOLLOWER


@cython.locals(following=Following, log=PartitionLog)
cpdef object take_fetched(
    Partition partition,
    object records,
    long long leader_epoch,
    long long high_watermark,
    object leader_log_start_offset,
)
@cython.locals(outcomes=list)
cdef object _append_fetched(Partition partition, PartitionLog log, object records)
