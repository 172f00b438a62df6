"""`tidelog produce`: records from standard input or files into a topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

from tidelog.cli.admin_session import QuestionError, RefusalError, parse_pairs, print_json
from tidelog.cli.client_session import with_cluster
from tidelog.cli.input_records import InputFormat, parse_line, read_lines
from tidelog.cli.interrupts import EXIT_INTERRUPTED
from tidelog.client.admin import Admin
from tidelog.client.errors import ClientError
from tidelog.client.producer.producer import Producer
from tidelog.client.producer.record_metadata import RecordMetadata
from tidelog.model.clock import SystemClock

_COMMAND = "produce"
RECORD_BYTES_MAX = 1_048_576

# A person waits for the first record: a topic that is not there by then will not come.
_TOPIC_TIMEOUT_MS = 10_000
_STDIN = "-"


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


class _Deliveries:
    """What became of the records. Told on the clients' thread, read on the caller's."""

    def __init__(self) -> None:
        self.done = 0
        self.error: ClientError | None = None

    def __call__(self, error: ClientError | None, _metadata: RecordMetadata | None) -> None:
        if error is None:
            self.done += 1
        elif self.error is None:
            self.error = error


def produce(bootstrap: str, topic: str, options: ProduceOptions) -> int:
    def work(_admin: Admin) -> int:
        form = _format(options)
        headers = [(name, value.encode()) for name, value in parse_pairs(options.headers).items()]
        deliveries = _Deliveries()
        code = 0
        with ExitStack() as stack:
            lines = _lines(options.files, stack)
            producer = stack.enter_context(
                Producer(
                    bootstrap_servers=bootstrap,
                    client_id="tidelog-produce",
                    compression_type=options.codec,
                    acks=options.acks if options.acks == "all" else int(options.acks),
                    enable_idempotence=options.acks == "all",
                    max_block_ms=_TOPIC_TIMEOUT_MS,
                    max_request_size=RECORD_BYTES_MAX,
                )
            )
            pace = _Pace(options.rate)
            try:
                for number, line in enumerate(lines, 1):
                    if deliveries.error is not None or (options.count is not None and number > options.count):
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
                        on_delivery=deliveries,
                    )
                    if options.count is not None and number == options.count:
                        break
            except KeyboardInterrupt:
                # What was read is sent all the same.
                code = EXIT_INTERRUPTED
        if deliveries.error is not None:
            raise RefusalError(f"{deliveries.done} records were written, and then one was not: {deliveries.error}")
        if options.as_json:
            print_json([{"topic": topic, "records": deliveries.done}])
        return code

    return with_cluster(_COMMAND, bootstrap, work)


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
