# The types of `records`, for its compiled twin.

cimport cython

cdef long long _HEADER_BYTES
cdef long long _ID_BYTES_MAX
cdef long long _KEY_BYTES
cdef long long _VALUE_BYTES


@cython.final
cdef class TransactionRecords:
    cdef readonly list _steps
    cdef readonly long long _transaction_version

    @cython.locals(
        at=cython.Py_ssize_t,
        size=cython.longlong,
        key_bytes=cython.longlong,
        value_bytes=cython.longlong,
        number=cython.longlong,
        count=cython.longlong,
        is_tagged=cython.bint,
        transactional_id=bytes,
        by_topic=list,
        batch=bytearray,
        out=cython.p_uchar,
    )
    cpdef bytearray to_batch(self, object timestamp_ms)


@cython.locals(topics=list, partitions=list)
cdef list _by_topic_bytes(object metadata)
@cython.locals(size=cython.longlong, count=cython.longlong, name=bytes, partitions=list)
cdef long long _value_bytes(object metadata, list topics, bint is_tagged) except *
@cython.locals(name=bytes, partitions=list, index=cython.longlong, tags_at=cython.Py_ssize_t)
cdef Py_ssize_t _put_value(unsigned char *out, Py_ssize_t at, object metadata, list topics, bint is_tagged) except *
cdef Py_ssize_t _put_tagged(unsigned char *out, Py_ssize_t at, int tag, int count)
