cdef object _new_tuple


cdef bytes bytes_of(object field)


cdef class BatchBuilder:
    cdef bytearray buffer
    cdef unsigned char *out
    cdef Py_ssize_t position
    cdef Py_ssize_t capacity
    cdef long long count
    cdef long long base_timestamp
    cdef long long max_timestamp
    cdef list reported
    cdef object written_as
    cdef object written_topic
    cdef object written_partition
    cdef long long written_offset
    cdef long long written_time

    cdef long long write(self, long long timestamp, object key, object value, object headers) except? -1
    cdef object metadata_at(self, long long index, long long timestamp)


cdef class Delivery:
    cdef BatchBuilder batch
    cdef long long index
    cdef long long timestamp


cdef Delivery deliver(BatchBuilder batch, long long index, long long timestamp, object on_delivery)
