# Numbers of a header are fields of at most 8 bytes, so they are C's; where they come from is looked at before.

cimport cython

cdef long long _HEADER_BYTES
cdef long long _BATCH_OVERHEAD
cdef long long _CHECKED_POSITION
cdef long long _MAGIC
cdef long long _CODEC_MASK
cdef long long _CODEC_MAX
cdef long long _TRANSACTIONAL_BIT
cdef long long _CONTROL_BIT
cdef long long _OFFSET_MAX
cdef long long _NO_PRODUCER
cdef memoryview _NOWHERE


@cython.final
@cython.freelist(64)
cdef class CheckedBatch:
    cdef readonly memoryview buffer
    cdef readonly Py_ssize_t position
    cdef readonly Py_ssize_t size_bytes
    cdef readonly long long base_offset
    cdef readonly long long leader_epoch
    cdef readonly long long attributes
    cdef readonly long long last_offset_delta
    cdef readonly long long max_timestamp
    cdef readonly long long producer_id
    cdef readonly long long producer_epoch
    cdef readonly long long base_sequence
    cdef readonly long long record_count
    cdef public object guard
    cdef public object marker

    @cython.locals(data="unsigned char *")
    cpdef object place(self, long long base_offset, long long leader_epoch)
    @cython.locals(other=CheckedBatch)
    cpdef CheckedBatch copy(self)


cpdef object check_produced(object records, object next_offset=*)
@cython.locals(batch=CheckedBatch)
cpdef CheckedBatch checked_in(memoryview frame, Py_ssize_t start, Py_ssize_t stop)
@cython.locals(view=memoryview, position=Py_ssize_t, end=Py_ssize_t, batches=list, batch=CheckedBatch)
cpdef object check_copied(object records)
@cython.locals(built=CheckedBatch)
cpdef CheckedBatch built_batch(
    bytearray batch,
    long long record_count,
    long long max_timestamp,
    long long producer_id=*,
    long long producer_epoch=*,
    object guard=*,
    object marker=*,
)
@cython.locals(batch=CheckedBatch)
cpdef CheckedBatch batch_in_log(object header)
@cython.locals(batch=CheckedBatch)
cpdef CheckedBatch kept_batch(long long size_bytes, long long last_offset, long long max_timestamp)
@cython.locals(view=memoryview)
cpdef memoryview writable(object records)
@cython.locals(
    data="const unsigned char *",
    size=cython.longlong,
    attributes=cython.longlong,
    delta=cython.longlong,
    offset=cython.longlong,
    count=cython.longlong,
    producer_id=cython.longlong,
    sequence=cython.longlong,
    rest=cython.longlong,
    batch=CheckedBatch,
)
cdef CheckedBatch _read(memoryview view, Py_ssize_t position, Py_ssize_t end, bint is_produced)
