cimport cython

cdef long long _HEADER_BYTES
cdef long long _NAME_BYTES_MAX
cdef long long _KEY_BYTES
cdef long long _VALUE_BYTES
cdef long long _TOPIC_ID_BYTES
cdef long long _VERSION


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Committed:
    cdef public long long offset
    cdef public long long leader_epoch
    cdef public str metadata
    cdef public long long commit_timestamp_ms
    cdef public long long expire_timestamp_ms
    cdef public bytes topic_id
    cdef public long long record_offset


@cython.final
cdef class OffsetCommits:
    cdef readonly str group_id
    cdef readonly list rows
    cdef readonly long long producer_id
    cdef readonly long long producer_epoch

    @cython.locals(
        at=cython.Py_ssize_t,
        size=cython.longlong,
        key_bytes=cython.longlong,
        value_bytes=cython.longlong,
        number=cython.longlong,
        count=cython.longlong,
        has_topic_id=cython.bint,
        group=bytes,
        name=bytes,
        text=bytes,
        topic_id=bytes,
        encoded=list,
        row=tuple,
        committed=Committed,
        partition=cython.longlong,
        batch=bytearray,
        out=cython.p_uchar,
    )
    cpdef bytearray to_batch(self, long long timestamp_ms)
