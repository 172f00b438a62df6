# Producer ids, offsets and timestamps are fields of 8 bytes, sequences and epochs of fewer: C's numbers.

cimport cython
from tidelog.storage.checked_batches cimport CheckedBatch

cdef long long _BATCHES_KEPT
cdef long long _NO_TRANSACTION
cdef long long _SEQUENCES
cdef long long _SEQUENCE_MAX
cdef long long _NO_SEQUENCE
cdef long long _NO_PRODUCER_EPOCH
cdef long long _NO_TIMESTAMP


@cython.final
@cython.freelist(64)
cdef class BatchMetadata:
    cdef readonly long long last_sequence
    cdef readonly long long last_offset
    cdef readonly long long offset_delta
    cdef readonly long long timestamp


@cython.final
cdef class ProducerState:
    cdef readonly object producer_id
    cdef public long long epoch
    cdef public long long coordinator_epoch
    cdef public long long last_timestamp
    cdef public long long transaction_first_offset
    cdef public list batches

    @cython.locals(
        batches=list,
        known=BatchMetadata,
        last_sequence=cython.longlong,
    )
    cpdef object find_duplicate(self, CheckedBatch batch)
    @cython.locals(batches=list, kept=Py_ssize_t, last=BatchMetadata, last_sequence=cython.longlong)
    cpdef bint continues(self, long long epoch, long long base_sequence) except -1
    cpdef object begin_epoch(self, long long epoch)
    @cython.locals(batches=list, kept=Py_ssize_t, last=BatchMetadata, known=BatchMetadata)
    cpdef object take_in(self, CheckedBatch batch, long long base_offset)


cdef long long _last_sequence(CheckedBatch batch) noexcept
