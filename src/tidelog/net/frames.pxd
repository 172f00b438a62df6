cimport cython

cdef object _int32_at


@cython.final
cdef class FrameReader:
    cdef object _buffers
    cdef memoryview _view
    cdef Py_ssize_t _view_bytes
    cdef memoryview _own
    cdef bint _is_aside
    cdef long long _frame_bytes_max
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef Py_ssize_t _taken_bytes
    cdef Py_ssize_t _wanted_bytes

    cpdef object limit(self, long long frame_bytes_max)
    cpdef object buffer(self)
    @cython.locals(own=memoryview)
    cpdef object little_buffer(self, Py_ssize_t bytes_max)
    @cython.locals(end=Py_ssize_t)
    cpdef bint received(self, Py_ssize_t count) except -1
    @cython.locals(start=Py_ssize_t, available=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t)
    cpdef object take(self)
    @cython.locals(available=Py_ssize_t, size=Py_ssize_t)
    cpdef bint has_frame(self) except -1
    @cython.locals(available=Py_ssize_t, size=Py_ssize_t)
    cpdef bint has_several(self) except -1
    @cython.locals(start=Py_ssize_t, left_bytes=Py_ssize_t, own=memoryview)
    cpdef object put_aside(self)
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, own=memoryview, left_bytes=Py_ssize_t, needed_bytes=Py_ssize_t)
    cpdef object settle(self)
    cpdef object release_idle(self)
    cpdef object close(self)
    @cython.locals(own=memoryview)
    cdef object _let_go(self)


@cython.locals(data=cython.p_uchar, size=cython.int)
cdef Py_ssize_t _size_at(memoryview view, Py_ssize_t at) noexcept
