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

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.broker.metrics.request_counts import BOUNDS_NS, NS_PER_MS, RequestCounts
from tidelog.model.errors import ErrorCode
from tidelog.model.metrics import LATENCY_BOUNDS_MS, Histogram, Kind, Reading, Registry
from tidelog.wire.apis import api
from tidelog.wire.schema import ArrayOf, Response, Struct, StructOf, fields_of

PREFIX = "kafka_network_request_metrics_"

if TYPE_CHECKING:
    from tidelog.broker.metrics.request_counts import CountErrors, Errors


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
            times = sums.setdefault(_name(key), Histogram(BOUNDS_NS))
            for part in parts:
                times.add(getattr(counts, part))
            if parts == ("remote",):
                # Who was answered at once has waited for nothing.
                times.counts[0] += counts.at_once.count
        return [((name,), _in_ms(times)) for name, times in sums.items()]


def _in_ms(times_ns: Histogram) -> Histogram:
    times = Histogram(LATENCY_BOUNDS_MS)
    times.counts = times_ns.counts
    times.sum = times_ns.sum / NS_PER_MS
    return times


def _name(key: int) -> str:
    return api(key).name


# --- errors ----------------------------------------------------------------------------------------------------------------


def error_counter(response: type[Response]) -> CountErrors:
    """What counts the error codes in a response that is not typed: a typed one does so itself."""
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
