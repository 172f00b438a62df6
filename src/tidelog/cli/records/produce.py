"""`tidelog produce`: records from standard input or files into a topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from tidelog.cli.admin_session import QuestionError, RefusalError, print_json, remark
from tidelog.cli.cluster_login import login_settings
from tidelog.cli.interrupts import EXIT_INTERRUPTED
from tidelog.cli.records.client_session import with_cluster
from tidelog.cli.records.input_records import InputFormat, parse_line, read_lines
from tidelog.cli.topic_names import check_topic_name
from tidelog.client.admin import Admin, ConfigResource, ResourceKind
from tidelog.client.errors import ClientError
from tidelog.client.producer.options import ProducerOptions
from tidelog.client.producer.producer import Producer
from tidelog.client.producer.record_metadata import OnDelivery, RecordMetadata
from tidelog.model.clock import SystemClock
from tidelog.model.config import did_you_mean
from tidelog.model.errors import ErrorCode

_COMMAND = "produce"
RECORD_BYTES_MAX = 1_048_576

# A person waits for the first record: a topic that is not there by then will not come.
_TOPIC_TIMEOUT_MS = 10_000
_STDIN = "-"
_AUTO_CREATE = "auto.create.topics.enable"


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """What was typed."""

    files: Sequence[str] = ()
    key: str | None = None
    key_separator: str | None = None
    headers: Sequence[str] = ()
    null_marker: str | None = None
    from_json: bool = False
    partition: int | None = None
    codec: str = "none"
    acks: str = "all"
    rate: float | None = None
    count: int | None = None
    as_json: bool = False


class _Outcome:
    """What became of the lines. Records are told of on the clients' thread, and read of on the caller's."""

    def __init__(self) -> None:
        self.sent = 0
        self.written = 0
        self.error: ClientError | None = None
        self.line = 0
        """Of the record whose error it is."""
        self.problem: QuestionError | ClientError | None = None
        """What was wrong with the last line that was read, which was not sent."""
        self.is_cut_short = False
        """Whether there may be lines that were not read."""

    def of_line(self, number: int) -> OnDelivery:
        def delivered(error: ClientError | None, _metadata: RecordMetadata | None) -> None:
            if error is None:
                self.written += 1
            elif self.error is None:
                self.error, self.line = error, number

        return delivered

    def check(self, topic: str) -> None:
        """QuestionError or RefusalError where not everything was written, with what is in the topic."""
        rest = ", and nothing that follows was sent" if self.is_cut_short else ""
        if self.error is not None:
            raise RefusalError(
                f"line {self.line} was not written: {self.error}; {self.written} of the {self.sent} that were sent "
                f"are in {topic}{rest}"
            )
        if self.problem is not None:
            kind = QuestionError if isinstance(self.problem, QuestionError) else RefusalError
            before = f"the {_records(self.written)} before it" if self.written else "nothing"
            written = "is" if self.written < 2 else "are"
            raise kind(f"{self.problem}; {before} {written} in {topic}{rest}") from self.problem


def produce(bootstrap: str, topic: str, options: ProduceOptions) -> int:
    def work(admin: Admin) -> int:
        check_topic_name(topic)
        form = _format(options)
        headers = parse_headers(options.headers)
        outcome = _Outcome()
        code = 0
        with ExitStack() as stack:
            lines = _lines(options.files, stack)
            is_missing = _is_missing(admin, topic)
            if is_missing and _creates_no_topics(admin):
                nearest = did_you_mean(topic, [each.name for each in admin.list_topics()])
                raise RefusalError(
                    f"there is no topic {topic}, and the cluster creates none by itself: "
                    f"`tidelog topics create {topic}` does{nearest}"
                )
            own: dict[str, Any] = {
                "bootstrap_servers": bootstrap,
                "compression_type": options.codec,
                "acks": options.acks if options.acks == "all" else int(options.acks),
                "enable_idempotence": options.acks == "all",
                "max_block_ms": _TOPIC_TIMEOUT_MS,
                "max_request_size": RECORD_BYTES_MAX,
            }
            settings = {"client_id": "tidelog-produce", **login_settings(ProducerOptions), **own}
            producer = stack.enter_context(Producer(**settings))
            pace = _Pace(options.rate)
            try:
                for number, line in enumerate(islice(lines, options.count), 1):
                    if outcome.error is not None:
                        outcome.is_cut_short = True
                        break
                    record = parse_line(line, number, form)
                    pace.wait()
                    producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition=options.partition if record.partition is None else record.partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=[*headers, *record.headers],
                        on_delivery=outcome.of_line(number),
                    )
                    outcome.sent += 1
                    if is_missing and number == 1:
                        count = len(producer.partitions_for(topic))
                        remark(_COMMAND, f"topic {topic} was created, with {count} partition{'s' if count > 1 else ''}")
            except (QuestionError, ClientError) as error:
                # What was read before is sent all the same; then it is said how much that is.
                outcome.problem, outcome.is_cut_short = error, True
            except KeyboardInterrupt:
                # What was read is sent all the same.
                code = EXIT_INTERRUPTED
        outcome.check(topic)
        if options.as_json:
            print_json([{"topic": topic, "records": outcome.written}])
        else:
            remark(_COMMAND, f"{_records(outcome.written)} written to {topic}")
        return code

    return with_cluster(_COMMAND, bootstrap, work)


def parse_headers(texts: Iterable[str]) -> list[tuple[str, bytes]]:
    """`key=value` as it was typed. A key may come several times, and a value be empty."""
    headers = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise QuestionError(f"{text!r} is not a header: expected --header key=value, as in --header source=shop")
        headers.append((name, value.encode(errors="surrogateescape")))
    return headers


def _is_missing(admin: Admin, topic: str) -> bool:
    described = admin.describe_topics([topic])[topic]
    return isinstance(described, ClientError) and described.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _creates_no_topics(admin: Admin) -> bool:
    """Whether all brokers say so. One that does not answer, or not to this client, is left to be tried."""
    try:
        brokers = [str(each.node_id) for each in admin.describe_cluster().brokers]
        described = admin.describe_configs(
            [ConfigResource(ResourceKind.BROKER, name) for name in brokers], keys=[_AUTO_CREATE]
        )
    except ClientError:
        return False
    return all(
        not isinstance(each, ClientError) and _AUTO_CREATE in each and each[_AUTO_CREATE].value == "false"
        for each in described.values()
    )


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _format(options: ProduceOptions) -> InputFormat:
    if options.from_json and (options.key_separator is not None or options.null_marker is not None):
        raise QuestionError("JSON lines have keys and nulls of their own: leave out --key-separator and --null")
    if options.key is not None and options.key_separator is not None:
        raise QuestionError("--key and --key-separator contradict each other")
    if options.key_separator == "":
        raise QuestionError("the key separator is empty; one as in --key-separator : has a character at least")
    return InputFormat(
        _bytes(options.key_separator), _bytes(options.null_marker), options.from_json, _bytes(options.key)
    )


def _bytes(text: str | None) -> bytes | None:
    # A tab or a newline is hard to type otherwise.
    return None if text is None else text.replace("\\t", "\t").replace("\\n", "\n").encode(errors="surrogateescape")


def _lines(files: Sequence[str], stack: ExitStack) -> Iterator[bytes]:
    """The lines of all files, which are opened first: a name that is wrong stops the command before anything is sent."""
    streams: list[BinaryIO] = []
    for path in files or (_STDIN,):
        if path == _STDIN:
            if sys.stdin.isatty():
                sys.stderr.write("one record a line; Ctrl-D ends\n")
            streams.append(sys.stdin.buffer)
            continue
        try:
            streams.append(stack.enter_context(open(path, "rb")))  # noqa: PTH123, SIM115 - the stack closes it
        except OSError as error:
            raise QuestionError(f"{path} cannot be read: {error.strerror or error}") from error
    return (line for stream in streams for line in read_lines(stream, RECORD_BYTES_MAX))


class _Pace:
    """So many records a second, evenly. Late ones are made up for."""

    def __init__(self, rate: float | None) -> None:
        self._interval_ns = 0 if rate is None else int(1e9 / rate)
        self._clock = SystemClock()
        self._next_ns = self._clock.monotonic_ns()

    def wait(self) -> None:
        if not self._interval_ns:
            return
        ahead_ns = self._next_ns - self._clock.monotonic_ns()
        self._next_ns += self._interval_ns
        if ahead_ns > 0:
            time.sleep(ahead_ns / 1e9)
