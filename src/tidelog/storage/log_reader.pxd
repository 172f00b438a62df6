cimport cython
from tidelog.storage.segment cimport Segment
from tidelog.storage.segment_list cimport SegmentList

cdef Py_ssize_t _PLACES_REMEMBERED_MAX


@cython.final
cdef class FreshRun:
    cdef readonly Segment segment
    cdef readonly long long position
    cdef readonly long long base_offset
    cdef readonly long long end_offset
    cdef readonly bytes records


@cython.final
cdef class FoundRegion:
    cdef readonly object region
    cdef readonly Segment segment


@cython.final
cdef class FirstBatchTooLarge:
    cdef readonly long long size_bytes


@cython.final
cdef class LogReader:
    cdef SegmentList _segments
    cdef readonly dict _places
    cdef public FreshRun fresh

    @cython.locals(end=cython.longlong, fresh=FreshRun)
    cpdef object keep_fresh(self, Segment segment, bytes records, long long base_offset, long long end_offset)
    @cython.locals(
        segment=Segment, place=tuple, position=cython.longlong, end=cython.longlong, first_batch_bytes=cython.longlong
    )
    cpdef object find_region(
        self, long long offset, long long bound, long long log_end_offset, long long bytes_max, bint min_one_batch
    )
    @cython.locals(position=cython.longlong, holder=Segment, place=tuple)
    cdef long long _end_position(self, Segment segment, long long bound, long long log_end_offset) except *
    @cython.locals(places=dict)
    cdef object _remember(self, object offset, Segment segment, long long position)


cdef object _region_of(Segment segment, long long position, long long count)
