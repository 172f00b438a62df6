# The types of `led_partition`, for its compiled twin.

cimport cython


@cython.final
cdef class LedPartition:
    cdef object _partition
