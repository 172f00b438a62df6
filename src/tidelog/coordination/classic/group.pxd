# The types of `group`, for compiled modules.

cimport cython


@cython.final
cdef class ClassicGroup:
    cdef public object group_id
    cdef public object state
    cdef public object previous_state
    cdef public object state_since_ms
    cdef public long long generation_id
    cdef public object protocol_type
    cdef public object protocol_name
    cdef public object leader_id
    cdef public dict members
    cdef public dict static_member_ids
    cdef public dict pending_joins
    cdef public dict pending_syncs
    cdef public long long awaiting_joins_count
    cdef public bint new_member_added
    cdef public object sessions
    cdef object _supported
    cdef object _subscriptions
    cdef object _subscribed_topics

    cpdef object check_commit(
        self, object member_id, object instance_id, long long epoch, long api_version, long long now_ms, bint is_transactional=*)
    cpdef object check_member(self, object member_id, object instance_id)
