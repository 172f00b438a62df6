# Offsets are only compared here, with each other, and stay Python's.

cimport cython


# `partition` knows these classes, and these know it: each is named before the other's file is read.
cdef class OffsetWaiters
cdef class Wakeups

from tidelog.replication.partition cimport Partition

cdef object _NONE


@cython.final
cdef class OffsetWaiters:
    cdef readonly list heap
    cdef long long _number

    cpdef object wait_for(self, object offset)
    @cython.locals(heap=list)
    cpdef object reached(self, object offset, object error=*)
    @cython.locals(heap=list)
    cpdef object fail(self, object error)


@cython.final
cdef class Wakeups:
    cdef dict _changed
    cdef Py_ssize_t _holds
    cdef public object on_caught_up

    cpdef object changed(self, Partition partition)
    cpdef object hold(self)
    @cython.locals(partition=Partition)
    cpdef object release(self)
