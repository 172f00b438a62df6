# The types of `tls_channel`, for its compiled twin.

cimport cython

from tidelog.net.file_warmth cimport FileWarmth
from tidelog.net.socket_channel cimport SocketChannel

cdef Py_ssize_t _WOULD_BLOCK
cdef Py_ssize_t _PIECE_BYTES
cdef Py_ssize_t _RECORD_BYTES_MAX
cdef Py_ssize_t _ENCRYPTED_BYTES_MAX


@cython.final
cdef class TlsChannel:
    cdef object _end
    cdef object _write
    cdef object _outgoing
    cdef object _read
    cdef object _under
    cdef SocketChannel _socket
    cdef object _buffers
    cdef object _on_error
    cdef object _unsent
    cdef object _writable
    cdef bint _is_ending
    cdef FileWarmth _warmth
    cdef readonly bint sends_files

    @cython.locals(warmth=FileWarmth, taken=Py_ssize_t, wanted=Py_ssize_t, left=Py_ssize_t, read=Py_ssize_t)
    cpdef Py_ssize_t send_file(self, int descriptor, long long position, Py_ssize_t count) except -2
    @cython.locals(done=Py_ssize_t, taken=Py_ssize_t)
    cdef Py_ssize_t _encrypt_piece(self, object piece, Py_ssize_t count) except -1
    cdef Py_ssize_t _encrypt(self, object view, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(sent=Py_ssize_t)
    cdef bint _push(self, bint more_follows) except -1
    @cython.locals(under=SocketChannel)
    cdef Py_ssize_t _send_under(self, object data, bint more_follows) except -2
    @cython.locals(sent=Py_ssize_t)
    cdef bint _send_unsent(self) except -1
    cdef bint _is_warming(self) except -1
