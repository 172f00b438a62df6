# Bytes into a socket, and the time, for the compiled twin of `stream_kernel`: `_plain_socket_bytes` is the same for the plain one.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetFromErrno
from libc cimport errno

cdef extern from "<sys/socket.h>":
    ssize_t c_send "send"(int descriptor, const void *data, size_t size, int flags)

cdef extern from "<time.h>":
    struct timespec:
        long long tv_sec
        long long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec *now) nogil


cdef inline long long system_ns() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1000000000 + now.tv_nsec


cdef inline Py_ssize_t send_bytes(int descriptor, object data, int flags) except -2:
    # Python's own lock is kept: the socket does not wait, and to let go of the lock and take it again costs as much as all the rest.
    cdef Py_buffer view
    cdef ssize_t sent
    cdef int failure = errno.EINTR
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    sent = -1
    while sent < 0 and failure == errno.EINTR:
        sent = c_send(descriptor, view.buf, view.len, flags)
        failure = errno.errno
    PyBuffer_Release(&view)
    if sent >= 0:
        return sent
    if failure == errno.EAGAIN:
        return -1
    errno.errno = failure
    PyErr_SetFromErrno(OSError)
