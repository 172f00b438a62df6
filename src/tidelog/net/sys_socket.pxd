# What `socket_channel` needs of C.

cdef extern from "<sys/socket.h>":
    ssize_t c_send "send"(int descriptor, const void *data, size_t size, int flags)

ctypedef Py_buffer BufferView
