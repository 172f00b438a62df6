"""What is counted of every request: kafka.network's RequestMetrics.

    counted = metrics.requests[api_key, version]
    counted.answered(elapsed_ns, request_bytes, response_bytes, answer)
    counted.answered_later(local_ns, elapsed_ns, ...)           # the same, for one that had to wait for something

An answer at once takes one observation: its local time is its total time, and it waited for nothing. Only the others are told
apart. The families are put together when somebody asks.

Errors are counted as Kafka counts them: every error code in an answer, one for each topic, partition or group that it speaks of,
NONE as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from tidelog.model.errors import ErrorCode
from tidelog.model.metrics import LATENCY_BOUNDS_MS, Histogram, Kind, Reading, Registry
from tidelog.wire.apis import api
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.produce import ProduceResponse
from tidelog.wire.schema import ArrayOf, Response, Struct, StructOf, fields_of

PREFIX = "kafka_network_request_metrics_"

_NS_PER_MS = 1_000_000
_BOUNDS_NS = tuple(round(bound * _NS_PER_MS) for bound in LATENCY_BOUNDS_MS)

Errors: TypeAlias = defaultdict[int, int]
CountErrors: TypeAlias = Callable[[Any, Errors], None]


class RequestCounts:
    """The requests of one API in one version."""

    __slots__ = (
        "_count_errors",
        "at_once",
        "errors",
        "local",
        "remote",
        "request_bytes",
        "response_bytes",
        "total",
        "waiting",
    )

    def __init__(self, count_errors: CountErrors) -> None:
        # Of answers at once; the other three are of those that waited. In nanoseconds: an integer is the cheaper sum.
        self.at_once = Histogram(_BOUNDS_NS)
        self.local = Histogram(_BOUNDS_NS)
        self.remote = Histogram(_BOUNDS_NS)
        self.total = Histogram(_BOUNDS_NS)
        self.request_bytes = 0
        self.response_bytes = 0
        # Requests whose answer is still to come.
        self.waiting = 0
        self.errors: Errors = defaultdict(int)
        self._count_errors = count_errors

    @property
    def count(self) -> int:
        return self.at_once.count + self.total.count

    def answered(self, elapsed_ns: int, request_bytes: int, response_bytes: int, answer: Response) -> None:
        """A request was answered by its handler."""
        # What `Histogram.observe` does, for one call less in every request.
        times = self.at_once
        times.counts[bisect_left(_BOUNDS_NS, elapsed_ns)] += 1
        times.sum += elapsed_ns
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        self._count_errors(answer, self.errors)

    def answered_together(self, count: int, elapsed_ns: int, request_bytes: int, response_bytes: int) -> None:
        """Several requests of one read were answered together, each after `elapsed_ns`. Their errors are counted apart."""
        times = self.at_once
        times.counts[bisect_left(_BOUNDS_NS, elapsed_ns)] += count
        times.sum += elapsed_ns * count
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes

    def answered_later(
        self, local_ns: int, elapsed_ns: int, request_bytes: int, response_bytes: int, answer: Response
    ) -> None:
        """A request was answered by an event: `local_ns` of its time was spent in its handler, the rest on waiting."""
        self.waited(local_ns, elapsed_ns, request_bytes, response_bytes)
        self._count_errors(answer, self.errors)

    def waited(self, local_ns: int, elapsed_ns: int, request_bytes: int, response_bytes: int) -> None:
        """The same of one whose errors are counted apart."""
        self.waiting -= 1
        # As in `answered`.
        times = self.local
        times.counts[bisect_left(_BOUNDS_NS, local_ns)] += 1
        times.sum += local_ns
        times, remote_ns = self.remote, elapsed_ns - local_ns
        times.counts[bisect_left(_BOUNDS_NS, remote_ns)] += 1
        times.sum += remote_ns
        times = self.total
        times.counts[bisect_left(_BOUNDS_NS, elapsed_ns)] += 1
        times.sum += elapsed_ns
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes

    def count_errors(self, answer: Response) -> None:
        """The error codes in an answer, where nothing else of it is to be counted."""
        self._count_errors(answer, self.errors)

    def unanswered(self, elapsed_ns: int, request_bytes: int) -> None:
        """A request that wants no answer was handled."""
        self.at_once.observe(elapsed_ns)
        self.request_bytes += request_bytes


class RequestMetrics(dict[tuple[int, int], RequestCounts]):
    """By API key and version. What a client can ask for is limited to what has a handler, and so is this."""

    def __missing__(self, key: tuple[int, int]) -> RequestCounts:
        counts = self[key] = RequestCounts(error_counter(api(key[0]).response))
        return counts

    def register(self, registry: Registry) -> None:
        """Declare the families."""
        registry.family(
            Kind.COUNTER,
            PREFIX + "requests_total",
            "Requests that were answered, or wanted no answer.",
            ("request", "version"),
            lambda: [((_name(key), str(version)), each.count) for (key, version), each in self.items()],
        )
        registry.family(
            Kind.COUNTER,
            PREFIX + "errors_total",
            "Error codes in answers, one for each topic, partition or group that an answer speaks of. NONE is counted too.",
            ("request", "error"),
            self._errors,
        )
        registry.family(
            Kind.COUNTER,
            PREFIX + "request_bytes_total",
            "Bytes of requests, without their size fields.",
            ("request",),
            lambda: self._by_name(lambda each: each.request_bytes),
        )
        registry.family(
            Kind.COUNTER,
            PREFIX + "response_bytes_total",
            "Bytes of answers, without their size fields, with the records that leave straight from a file.",
            ("request",),
            lambda: self._by_name(lambda each: each.response_bytes),
        )
        for name, help_text, parts in (
            ("total_time_ms", "From the request to its answer on its way to the socket.", ("at_once", "total")),
            ("local_time_ms", "The part of that in which the request was handled here.", ("at_once", "local")),
            ("remote_time_ms", "The part of that spent waiting: for records, replicas, the controller.", ("remote",)),
        ):
            registry.family(Kind.HISTOGRAM, PREFIX + name, help_text, ("request",), partial(self._times, parts))

    def _by_name(self, value: Callable[[RequestCounts], int]) -> Iterable[Reading]:
        sums: defaultdict[str, int] = defaultdict(int)
        for (key, _), counts in self.items():
            sums[_name(key)] += value(counts)
        return [((name,), total) for name, total in sums.items()]

    def _errors(self) -> Iterable[Reading]:
        sums: defaultdict[tuple[str, str], int] = defaultdict(int)
        for (key, _), counts in self.items():
            for code, count in counts.errors.items():
                sums[_name(key), ErrorCode.of(code).name] += count
        return list(sums.items())

    def _times(self, parts: tuple[str, ...]) -> Iterable[Reading]:
        sums: dict[str, Histogram] = {}
        for (key, _), counts in self.items():
            times = sums.setdefault(_name(key), Histogram(_BOUNDS_NS))
            for part in parts:
                times.add(getattr(counts, part))
            if parts == ("remote",):
                # Who was answered at once has waited for nothing.
                times.counts[0] += counts.at_once.count
        return [((name,), _in_ms(times)) for name, times in sums.items()]


def _in_ms(times_ns: Histogram) -> Histogram:
    times = Histogram(LATENCY_BOUNDS_MS)
    times.counts = times_ns.counts
    times.sum = times_ns.sum / _NS_PER_MS
    return times


def _name(key: int) -> str:
    return api(key).name


# --- errors ----------------------------------------------------------------------------------------------------------------


def error_counter(response: type[Response]) -> CountErrors:
    """What counts the error codes in a response: written out for the two of the data path, after the schema for the others."""
    if response is ProduceResponse:
        return _count_produce_errors
    if response is FetchResponse:
        return _count_fetch_errors
    return _counter_of(response) or _count_nothing


def _counter_of(struct: type[Struct]) -> CountErrors | None:
    """What counts the error codes in a struct and all that it holds, in one pass; None where there are none."""
    fields = fields_of(struct)
    has_code = any(field.name == "error_code" for field in fields)
    lists: list[tuple[str, CountErrors]] = []
    structs: list[tuple[str, CountErrors]] = []
    for field in fields:
        wire_type = field.wire_type
        inner = wire_type.element if isinstance(wire_type, ArrayOf) else wire_type
        counter = _counter_of(inner.struct) if isinstance(inner, StructOf) else None
        if counter is not None:
            (lists if isinstance(wire_type, ArrayOf) else structs).append((field.name, counter))
    if not has_code and not lists and not structs:
        return None

    def count(value: Any, errors: Errors) -> None:
        if has_code:
            errors[value.error_code] += 1
        for name, counter in lists:
            for each in getattr(value, name) or ():
                counter(each, errors)
        for name, counter in structs:
            if (inner := getattr(value, name)) is not None:
                counter(inner, errors)

    return count


def _count_nothing(answer: object, errors: Errors) -> None: ...


def _count_produce_errors(answer: ProduceResponse, errors: Errors) -> None:
    for topic in answer.responses:
        for partition in topic.partition_responses:
            errors[partition.error_code] += 1


def _count_fetch_errors(answer: FetchResponse, errors: Errors) -> None:
    errors[answer.error_code] += 1
    for topic in answer.responses:
        for partition in topic.partitions:
            errors[partition.error_code] += 1
