cimport cython
from tidelog.storage.segment cimport Segment


@cython.final
cdef class SegmentList:
    cdef list _base_offsets
    cdef list _segments
    cdef readonly Segment active

    @cython.locals(slot=Py_ssize_t, active=Segment)
    cpdef Segment floor(self, long long offset)
