# The types of `coordinator_batch`, for compiled modules.

cimport cython

cdef long long _CRC_AT
cdef long long _CHECKED_AT
cdef long long _TRANSACTIONAL


@cython.locals(body_bytes=cython.longlong)
cdef long long record_bytes(long long number, long long key_bytes, long long value_bytes)
cdef Py_ssize_t begin_record(
    unsigned char *out, Py_ssize_t at, long long number, long long key_bytes, long long value_bytes)
@cython.locals(out=cython.p_uchar)
cdef object seal(bytearray batch, long long count, long long timestamp_ms, long long producer_id, long long producer_epoch)
