cpdef long long murmur2(bytes key) except? -1
cpdef long long partition_of(bytes key, long long partition_count) except? -1
