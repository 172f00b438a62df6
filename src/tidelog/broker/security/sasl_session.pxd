# The types of `sasl_session`, for its compiled twin: every frame of such a connection goes through it.

cimport cython

cdef long long _SASL_HANDSHAKE


@cython.final
cdef class SaslSession:
    cdef object _listener
    cdef object _dispatcher
    cdef object _dispatch
    cdef object _frames_done
    cdef object _connection
    cdef object _who
    cdef long long _ends_ns
    cdef object _reauthenticated_ns
    cdef object _now_ns
    cdef bint _is_looked_at
