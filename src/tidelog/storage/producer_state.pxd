cimport cython
from tidelog.storage.checked_batches cimport CheckedBatch
from tidelog.storage.producer cimport ProducerState

cdef long long _NO_TRANSACTION
cdef long long _NO_PRODUCER_EPOCH
cdef long long _PRODUCER_EPOCH_MAX
cdef long long _TRANSACTIONAL_BIT
cdef long long _CONTROL_BIT
cdef object _LEADER
cdef object _FOLLOWER
cdef object _INVALID_PRODUCER_EPOCH


@cython.final
cdef class ProducerStateTable:
    cdef dict _producers
    cdef dict _verifications
    cdef readonly object ongoing
    cdef readonly object unreplicated
    cdef public object map_end_offset
    cdef public object producer_id_expiration_ms
    cdef str _directory
    cdef list _unreplicated_firsts
    cdef long long _last_guard
    cdef object _last_snapshot_offset
    cdef readonly object snapshots

    @cython.locals(state=ProducerState, epoch=cython.longlong, is_open=bint)
    cpdef object judge(self, CheckedBatch batch, object rule)
    @cython.locals(is_open=bint)
    cdef object _judge_transaction(self, ProducerState state, CheckedBatch batch)
    @cython.locals(epoch=cython.longlong, is_open=bint, raises_epochs=bint)
    cdef object _judge_marker(self, ProducerState state, CheckedBatch batch)
    @cython.locals(attributes=cython.longlong)
    cpdef object take_in(self, ProducerState state, CheckedBatch batch, long long offset)
    cdef object _begin_transaction(self, ProducerState state, long long offset)
    cdef object _end_transaction(self, ProducerState state, CheckedBatch batch, long long offset)
