# The types of `meter`, for compiled modules.

cimport cython

from tidelog.broker.quotas.accounts cimport Account
from tidelog.broker.quotas.node_quotas cimport NodeQuotas

cdef long long _NS_PER_MS
cdef double _FETCH_BYTES_MAX
cdef int _EXEMPT
cdef int _EXEMPT_IF_IT_FAILS
cdef double _PERCENT_PER_NS


@cython.final
cdef class ConnectionThrottle:
    cdef object _timer
    cdef object client_id
    cdef object principal
    cdef long long generation
    cdef Account produce
    cdef Account fetch
    cdef Account request
    cdef public long long muted_until_ms

    cpdef object look_up(self, NodeQuotas quotas, object principal, object client_id, long long now_ms)
    cpdef object mute(self, object connection, object timers, long long throttle_ms, long long now_ms)
    cpdef object close(self)


@cython.final
cdef class Meter:
    cdef NodeQuotas _quotas
    cdef object _timers
    cdef object _clock
    cdef ConnectionThrottle _state
    cdef int _metering
    cdef long long _begun_ns
    cdef long long _local_ns
    cdef long long _settled_ns
    cdef bint _is_settled
    cdef bint _is_passed_on
    cdef readonly long long produce_throttle_ms
    cdef public object connection
    cdef public bint is_exempt

    cpdef object passed_on(self, long long api_key, object principal, object client_id)
    @cython.locals(account=Account, now_ms=cython.longlong, throttle_ms=cython.longlong)
    cpdef Py_ssize_t produced(self, long long request_bytes) except -1
    @cython.locals(
        account=Account, over=Account, now_ns=cython.longlong, now_ms=cython.longlong, request_ms=cython.longlong,
        fetch_ms=cython.longlong, throttle_ms=cython.longlong)
    cpdef Py_ssize_t fetched(self, long long response_bytes) except -1
    @cython.locals(account=Account)
    cpdef Py_ssize_t fetch_bytes_max(self) except -2
    cpdef object begins_at(self, long long begun_ns)
    cpdef object handled(self, long long now_ns)
    cpdef object unanswered(self, long long now_ns)
    @cython.locals(account=Account, throttle_ms=cython.longlong)
    cdef Py_ssize_t _request_ms(self, long long now_ns, long long now_ms) except -1
    cdef object _record_exempt(self, long long elapsed_ns, long long now_ms)
    @cython.locals(now_ns=cython.longlong, now_ms=cython.longlong, request_ms=cython.longlong, throttle_ms=cython.longlong)
    cpdef object settled(self, object answer)
    @cython.locals(now_ns=cython.longlong, now_ms=cython.longlong, request_ms=cython.longlong)
    cpdef object gathered(self, object last)
    @cython.locals(elapsed_ns=cython.longlong, now_ms=cython.longlong)
    cpdef object sent(self, long long now_ns)
    cdef object _throttle(self, Account over, long long throttle_ms, long long now_ms)


@cython.final
cdef class MeteredAnswer:
    cdef Meter _meter
    cdef object _send
    cdef object _now_ns


@cython.locals(state=ConnectionThrottle, meter=Meter)
cpdef Meter meter_of(
    NodeQuotas quotas, object timers, object now_ns, object connection, object client_id, int metering, long long begun_ns)
