# The types of `node_quotas`, for compiled modules: every request looks at `is_on`.

cimport cython

from tidelog.broker.quotas.client_quotas cimport ClientQuotas
from tidelog.model.sampled_rate cimport SampledRate


@cython.final
cdef class NodeQuotas:
    cdef object _clock
    cdef object _followed
    cdef readonly ClientQuotas produce
    cdef readonly ClientQuotas fetch
    cdef readonly ClientQuotas request
    cdef readonly ClientQuotas mutations
    cdef readonly long long request_throttle_ms_max
    cdef readonly SampledRate exempt
    cdef readonly bint is_on

    cpdef Py_ssize_t generation(self) except -1
