# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The Produce requests of one read together: one write for each partition, and all answers at the end.

    gather.add(answer, batches, connection)     the handler has nothing against these batches: they are appended at the close
    gather.close()                              appends them, and answers every request in the order of arrival

It belongs to a dispatcher, whose connections are read one after the other. Batches stay in the buffer that they arrived in, so
it is closed before that is used again: at the end of each read, and whenever the dispatcher's share of the loop is used up. And
it is closed before any other request is handled, a Produce with something unusual included: nothing looks at a partition between
`add` and `close`, so that what was true of it when the handler looked still is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog import plain_cython
from tidelog.broker.data.produce_answer import append_run
from tidelog.broker.requests.answering import SIZE_BYTES, LaterAnswer
from tidelog.model.pending import Pending

if TYPE_CHECKING:
    import cython

    from tidelog.broker.data.produce_answer import ProduceAnswer, ProducedBatch
    from tidelog.broker.quotas.meter import Meter
    from tidelog.broker.requests.node_view import Node
    from tidelog.net.connection import Connection
    from tidelog.replication.partition import Partition
    from tidelog.replication.partitions import TopicReplicas
else:
    cython = plain_cython

if cython.compiled:
    from cython.cimports.tidelog.broker.requests.answering import encoded_frame, send_now
else:
    from tidelog.broker.requests.answering import encoded_frame, send_now

# What it takes to write with these acks was there when the handler looked: one replica is enough for the append itself.
_REQUIRED_ACKS = 1
_SIZE_BYTES = SIZE_BYTES


class ProduceGather:
    """Of one dispatcher: what its current read has produced so far."""

    __slots__ = (
        "_answers",
        "_batches",
        "_connection",
        "_node",
        "_now_ns",
        "_topics",
        "begun_ns",
        "done_ns",
        "hosted",
        "is_open",
        "meter",
        "now_ms",
        "topic",
    )

    def __init__(self, node: Node) -> None:
        self._node = node
        self._topics = node.metrics.topics
        self._now_ns = node.clock.monotonic_ns
        self._connection: Connection | None = None
        self._answers: list[ProduceAnswer] = []
        self._batches: list[ProducedBatch] = []
        self.is_open = False
        """Whether there is something to close."""
        self.begun_ns = 0
        """When the first request of those that are gathered was begun."""
        self.done_ns = 0
        """When the last close was done."""
        self.now_ms = 0
        """The time that the timestamps of this read are compared with."""
        self.meter: Meter | None = None
        """Of the last request, where clients have quotas: it tells of the time that all have taken."""
        # The topic that was written to last in this read, by its name or id, and its replicas here: requests of one read mostly
        # write to the same. No replicas: it is not to be written to without a closer look.
        self.topic: str | bytes | None = None
        self.hosted: TopicReplicas | None = None

    def begin(self) -> None:
        """The first request of a read is at hand."""
        self.is_open = True
        self.now_ms = self._node.clock.now_ms()

    def add(self, answer: ProduceAnswer, batches: list[ProducedBatch], connection: Connection) -> None:
        """One more request. All of them are of the same connection."""
        self._connection = connection
        self._answers.append(answer)
        self._batches += batches

    def close(self) -> None:
        """Append what was gathered, one write for each partition, and answer every request."""
        self.is_open = False
        self.topic = self.hosted = None
        answers, batches, connection = self._answers, self._batches, self._connection
        if connection is None:
            return
        self._answers, self._batches, self._connection = [], [], None
        if len(batches) == 1:
            append_run(batches, _REQUIRED_ACKS, self._topics)
        else:
            self._append(batches)
        self._send(answers, connection)

    def _append(self, batches: list[ProducedBatch]) -> None:
        runs: dict[Partition, list[ProducedBatch]] = {}
        for produced in batches:
            run = runs.get(produced.partition)
            if run is None:
                runs[produced.partition] = [produced]
            else:
                run.append(produced)
        # Who waits in a fetch for several of these partitions is told once.
        wakeups = self._node.partitions.wakeups
        wakeups.hold()
        try:
            for run in runs.values():
                append_run(run, _REQUIRED_ACKS, self._topics)
        finally:
            wakeups.release()

    def _send(self, answers: list[ProduceAnswer], connection: Connection) -> None:
        node = self._node
        frames: list[bytes] = []
        meter = self.meter
        if meter is not None:
            self.meter = None
            meter.begins_at(self.begun_ns)
            meter.gathered(answers[len(answers) - 1].response)
        for answer in answers:
            outcome = answer.finished(connection.listener_name, node)
            served = answer.served
            frame = None
            if isinstance(outcome, Pending):
                answer.sent_bytes = -1
            else:
                frame = encoded_frame(served, outcome, answer.correlation_id)
            if frame is not None:
                answer.sent_bytes = len(frame) - _SIZE_BYTES
                frames.append(frame)
                continue
            if frames:
                connection.answer_with_frames(frames)
                frames = []
            if isinstance(outcome, Pending):
                served.counts.waiting += 1
                slot = connection.expect_answer()
                now_ns = self._now_ns
                outcome.then(
                    LaterAnswer(
                        served, slot, answer.correlation_id, answer.request_bytes, self.begun_ns, now_ns(), now_ns
                    )
                )
            else:
                answer.sent_bytes = send_now(connection, served, outcome, answer.correlation_id)
        if frames:
            connection.answer_with_frames(frames)
        self.done_ns = self._now_ns()
        if meter is not None:
            meter.sent(self.done_ns)
        elapsed_ns = self.done_ns - self.begun_ns
        for answer in answers:
            if answer.sent_bytes >= 0:
                answer.served.counts.answered(elapsed_ns, answer.request_bytes, answer.sent_bytes, answer.response)
