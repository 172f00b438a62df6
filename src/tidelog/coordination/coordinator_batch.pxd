# The types of `coordinator_batch`, for compiled modules.

cimport cython

cdef long long _CRC_AT
cdef long long _CHECKED_AT
cdef long long _TRANSACTIONAL


@cython.locals(body_bytes=cython.longlong)
cdef long long record_bytes(long long number, long long key_bytes, long long value_bytes)
cdef Py_ssize_t begin_record(
    unsigned char *out, Py_ssize_t at, long long number, long long key_bytes, long long value_bytes)
cdef Py_ssize_t begin_value(unsigned char *out, Py_ssize_t at, long long value_bytes)
cdef Py_ssize_t put_name(unsigned char *out, Py_ssize_t at, bytes name) except *
cdef Py_ssize_t put_compact(unsigned char *out, Py_ssize_t at, bytes text) except *
cdef long long compact_bytes(bytes text) except *
@cython.locals(out=cython.p_uchar)
cdef object seal(bytearray batch, long long count, long long timestamp_ms, long long producer_id, long long producer_epoch)
