from __future__ import annotations

from tests.support.data_node import ManualTimers
from tests.support.log_builder import ManualClock
from tidelog.broker.cluster import directory_assignments
from tidelog.broker.cluster.directory_assignments import RETRY_MS, DirectoryAssignments
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId, NodeId, PartitionIndex, TopicId
from tidelog.model.pending import Pending
from tidelog.wire.messages.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from tidelog.wire.schema import Request, Response

ORDERS, PAYMENTS = TopicId(b"o" * 16), TopicId(b"p" * 16)
FIRST, SECOND = DirectoryId(b"a" * 16), DirectoryId(b"b" * 16)
Told = dict[bytes, list[tuple[bytes, int]]]


class Controller:
    """Keeps what it is told, and answers when a test says so."""

    def __init__(self) -> None:
        self.timers = ManualTimers(ManualClock())
        self.requests: list[AssignReplicasToDirsRequest] = []
        self.pending: list[Pending[Response]] = []
        self.has_directories = True
        self.assignments = DirectoryAssignments(
            self._ask,
            self.timers,
            node_id=NodeId(1),
            broker_epoch=lambda: 42,
            is_wanted=lambda: self.has_directories,
        )

    def _ask(self, request: Request) -> Pending[Response]:
        assert isinstance(request, AssignReplicasToDirsRequest)
        self.requests.append(request)
        self.pending.append(Pending())
        return self.pending[-1]

    def place(self, topic: TopicId, index: int, directory: DirectoryId) -> None:
        self.assignments.placed(topic, PartitionIndex(index), directory)

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.pending.pop(0).complete(AssignReplicasToDirsResponse(throttle_time_ms=0, error_code=error, directories=[]))

    @property
    def told(self) -> list[Told]:
        return [
            {
                directory.id: [
                    (topic.topic_id, each.partition_index) for topic in directory.topics for each in topic.partitions
                ]
                for directory in request.directories
            }
            for request in self.requests
        ]


def test_at_a_level_without_directories_nothing_is_told_until_it_is_raised() -> None:
    controller = Controller()
    controller.has_directories = False
    controller.assignments.start()
    controller.place(ORDERS, 0, FIRST)
    controller.assignments.look_again()
    controller.timers.advance(10 * RETRY_MS)
    assert controller.told == []

    controller.has_directories = True
    controller.assignments.look_again()
    controller.timers.advance(0)

    assert controller.told == [{FIRST: [(ORDERS, 0)]}]


def test_what_is_placed_at_once_is_told_in_one_request() -> None:
    controller = Controller()
    controller.assignments.start()
    controller.place(ORDERS, 0, FIRST)
    controller.place(PAYMENTS, 0, SECOND)
    controller.place(ORDERS, 1, FIRST)
    controller.timers.advance(0)

    assert controller.told == [{FIRST: [(ORDERS, 0), (ORDERS, 1)], SECOND: [(PAYMENTS, 0)]}]
    assert (controller.requests[0].broker_id, controller.requests[0].broker_epoch) == (1, 42)


def test_nothing_is_told_before_the_broker_is_registered() -> None:
    controller = Controller()
    controller.place(ORDERS, 0, FIRST)
    controller.timers.advance(0)
    assert controller.told == []

    controller.assignments.start()
    controller.timers.advance(0)
    assert controller.told == [{FIRST: [(ORDERS, 0)]}]


def test_one_request_at_a_time() -> None:
    controller = Controller()
    controller.assignments.start()
    controller.place(ORDERS, 0, FIRST)
    controller.timers.advance(0)
    controller.place(ORDERS, 1, FIRST)
    controller.timers.advance(0)
    assert len(controller.told) == 1

    controller.answer()
    controller.timers.advance(0)
    assert controller.told[1:] == [{FIRST: [(ORDERS, 1)]}]
    controller.answer()
    assert controller.timers.pending == 0


def test_a_controller_that_cannot_listen_is_told_again_what_holds_by_then() -> None:
    controller = Controller()
    controller.assignments.start()
    controller.place(ORDERS, 0, FIRST)
    controller.place(ORDERS, 1, FIRST)
    controller.timers.advance(0)
    controller.place(ORDERS, 0, SECOND)
    controller.answer(ErrorCode.NOT_CONTROLLER)
    controller.timers.advance(RETRY_MS - 1)
    assert len(controller.told) == 1

    controller.timers.advance(1)
    assert controller.told[1:] == [{SECOND: [(ORDERS, 0)], FIRST: [(ORDERS, 1)]}]


def test_a_request_has_a_limit_and_the_rest_follows() -> None:
    controller = Controller()
    controller.assignments.start()
    for index in range(directory_assignments.ASSIGNMENTS_PER_REQUEST_MAX + 1):
        controller.place(ORDERS, index, FIRST)
    controller.timers.advance(0)
    controller.answer()
    controller.timers.advance(0)

    assert [len(told[FIRST]) for told in controller.told] == [2000, 1]


def test_nothing_is_told_after_the_stop() -> None:
    controller = Controller()
    controller.assignments.start()
    controller.place(ORDERS, 0, FIRST)
    controller.assignments.stop()
    controller.timers.advance(RETRY_MS)
    controller.place(ORDERS, 1, FIRST)
    controller.timers.advance(RETRY_MS)

    assert controller.told == []
