# The types of `message`, for compiled modules.

cimport cython


cdef class TypedMessage:
    cdef Py_ssize_t read(
        self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2
    cdef Py_ssize_t write(
        self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2
    cdef Py_ssize_t count_errors(self, object errors) except -1


cdef long long records_bytes(object records) except -2
cdef bint is_copied(object records, long long count, Py_ssize_t copied_max)

cdef object view_of(object frame, Py_ssize_t start, Py_ssize_t stop)

@cython.locals(message=TypedMessage, at=Py_ssize_t, frame=object)
cpdef object decode_typed(object cls, long version, object buffer, Py_ssize_t position)

@cython.locals(size=Py_ssize_t, at=Py_ssize_t)
cpdef object encode_typed(TypedMessage message, long version)

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t bytes_beside_records(TypedMessage message, long version) except -2

@cython.locals(size=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, place=Py_ssize_t,
               total=cython.longlong, cuts=list, parts=list,
               out=cython.p_uchar)
cpdef object encode_typed_parts(
    TypedMessage message, long version, long long correlation_id, int header_version, bint with_size)
