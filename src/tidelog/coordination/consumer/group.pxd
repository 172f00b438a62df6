# The types of `group`, for compiled modules.

cimport cython


@cython.final
cdef class ConsumerGroup:
    cdef public object group_id
    cdef public long long epoch
    cdef public object metadata_hash
    cdef public long long assignment_epoch
    cdef public object assignment_timestamp_ms
    cdef public dict members
    cdef public dict static_members
    cdef public dict targets
    cdef public dict resolved_regexes
    cdef public dict regex_subscribers
    cdef public bint has_partition_metadata
    cdef public object looked_at_epoch
    cdef public object regexes_version
    cdef public dict earlier_epochs
    cdef public dict earlier_members
    cdef public dict earlier_targets
    cdef dict _subscribers
    cdef dict _owners

    cpdef object check_commit(
        self, object member_id, object instance_id, long long epoch, long api_version, object now_ms, bint is_transactional=*)
