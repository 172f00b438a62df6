cimport cython

cdef long long _HEADER_BYTES
cdef long long _NAME_BYTES_MAX
cdef long long _KEY_BYTES
cdef long long _VALUE_BYTES
cdef long long _TOPIC_ID_BYTES
cdef long long _VERSION


@cython.final
cdef class OffsetCommits:
    cdef readonly str group_id
    cdef readonly list rows
    cdef readonly object producer_id
    cdef readonly object producer_epoch

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
        batch=bytearray,
        out=cython.p_uchar,
    )
    cpdef bytearray to_batch(self, object timestamp_ms)
