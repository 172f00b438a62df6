"""What is counted of requests and of topics."""

from __future__ import annotations

from collections import defaultdict

from tidelog.broker.metrics.request_counts import RequestCounts
from tidelog.broker.metrics.request_metrics import RequestMetrics, error_counter
from tidelog.broker.metrics.topic_metrics import TopicMetrics
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.metrics import Histogram, Reading, Registry
from tidelog.wire.messages.api_versions import ApiVersionsResponse
from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

API_VERSIONS = 18
MS = 1_000_000


def readings(registry: Registry, ending: str) -> list[Reading]:
    (family,) = (each for each in registry if each.name.endswith(ending))
    return list(family.read())


def test_every_error_code_of_an_answer_is_counted() -> None:
    partitions = [MetadataResponsePartition(error_code=code) for code in (0, 5)]  # type: ignore[call-arg]
    topics = [MetadataResponseTopic(error_code=3, partitions=partitions)]  # type: ignore[call-arg]
    errors: defaultdict[int, int] = defaultdict(int)

    error_counter(MetadataResponse)(MetadataResponse(topics=topics), errors)  # type: ignore[call-arg]

    assert errors == {0: 2, 3: 1, 5: 1}


def test_a_wait_is_told_apart_from_the_work() -> None:
    metrics, registry = RequestMetrics(), Registry()
    metrics.register(registry)
    counts = metrics[API_VERSIONS, 4]
    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[], throttle_time_ms=0)

    counts.answered(2 * MS, 10, 20, answer)
    counts.waiting += 1
    counts.answered_later(3 * MS, 50 * MS, 10, 20, answer)

    sums = {}
    for name in ("total_time_ms", "local_time_ms", "remote_time_ms"):
        ((labels, times),) = readings(registry, name)
        assert isinstance(times, Histogram)
        assert (labels, times.count) == (("ApiVersions",), 2)
        sums[name] = times.sum
    assert sums == {"total_time_ms": 52, "local_time_ms": 5, "remote_time_ms": 47}
    assert readings(registry, "requests_total") == [(("ApiVersions", "4"), 2)]
    assert readings(registry, "errors_total") == [(("ApiVersions", "UNSUPPORTED_VERSION"), 2)]
    assert readings(registry, "response_bytes_total") == [(("ApiVersions",), 40)]
    assert counts.waiting == 0


def test_the_time_that_many_have_waited_is_never_too_much() -> None:
    """Of a thousand consumers that wait side by side, a hundred days are more nanoseconds than 64 bits hold."""
    counts = RequestCounts(lambda _answer, _errors: None)
    a_month_of_them_ns = 1000 * 30 * 86_400_000 * MS

    for _ in range(5):
        counts.waiting += 1
        counts.waited(a_month_of_them_ns // 2, a_month_of_them_ns, 0, 0)
        counts.answered_together(2, a_month_of_them_ns // 2, 0, 0)

    assert counts.at_once.sum == counts.total.sum == 5 * a_month_of_them_ns > 2**63
    assert counts.local.sum == counts.remote.sum == 5 * a_month_of_them_ns // 2


def test_a_topic_that_goes_leaves_its_counts_to_the_sum() -> None:
    metrics, registry = TopicMetrics(), Registry()
    metrics.register(registry)
    metrics[TopicName("a")].messages_in += 3
    metrics[TopicName("b")].messages_in += 4

    metrics.remove(TopicName("a"))
    metrics.remove(TopicName("never"))

    assert readings(registry, "messages_in_total") == [((), 7), (("b",), 4)]


def test_what_a_client_did_not_know_is_no_failure_of_the_broker() -> None:
    counts = TopicMetrics()[TopicName("a")]

    counts.produce_refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, 100)
    counts.produce_refused(ErrorCode.MESSAGE_TOO_LARGE, 100)
    counts.produce_refused(ErrorCode.INVALID_RECORD, 100)
    counts.fetch_refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    counts.fetch_refused(ErrorCode.UNKNOWN_SERVER_ERROR)

    assert (counts.failed_produce_requests, counts.bytes_rejected) == (1, 100)
    assert (counts.failed_fetch_requests, counts.total_fetch_requests) == (1, 2)
