# The types of `topic_counts`, for compiled modules.


cdef class TopicCounts:
    cdef public long long messages_in
    cdef public long long bytes_in
    cdef public long long bytes_out
    cdef public long long bytes_rejected
    cdef public long long replication_bytes_out
    cdef public long long total_produce_requests
    cdef public long long total_fetch_requests
    cdef public long long failed_produce_requests
    cdef public long long failed_fetch_requests
