"""`GET /log?topic=T&partition=P&offset=O`: where a batch lies in this node's replica. Never a byte of a key or a value.

200 and one object of JSON; 400 for another query, 404 where the replica or the offset is not here, 503 while `READS_MAX` others
are being answered, 500 for a file that is damaged. What has to be read is read as slow work, away from the node's loop.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from tidelog.broker.requests.node_view import Node
from tidelog.broker.watching.trace_page import partition_asked
from tidelog.model.pending import Pending
from tidelog.model.slow_work import SlowWork
from tidelog.net.http_endpoint import HttpRequest, Page, plain_page
from tidelog.replication.partition import Partition
from tidelog.storage.batch_place import PLACE_ERRORS, BatchPlace, ask_place

CONTENT_TYPE = "application/json"

# Each of them may read a batch of many megabytes, piece by piece, on one of the few threads that fsync too.
READS_MAX = 2
EPOCHS_MAX = 1000

_OFFSET_DIGITS_MAX = 19
_USAGE = "ask /log?topic=T&partition=P&offset=O"


class LogPages:
    """`/log` of one node, which serves."""

    def __init__(self, node: Node, slow_work: SlowWork) -> None:
        self._node = node
        self._slow_work = slow_work
        self._reads = 0

    def page(self, request: HttpRequest) -> Page | Pending[Page]:
        asked = request.arguments(("topic", "partition", "offset"))
        if asked is None or len(asked) != 3:
            return plain_page(HTTPStatus.BAD_REQUEST, _USAGE)
        number = asked["offset"]
        if not (number.isascii() and number.isdecimal() and len(number) <= _OFFSET_DIGITS_MAX):
            return plain_page(HTTPStatus.BAD_REQUEST, f"{_USAGE}, where O is an offset")
        partition = partition_asked(self._node, asked["topic"], asked["partition"])
        if isinstance(partition, str):
            return plain_page(HTTPStatus.NOT_FOUND, partition)
        return self._find(partition, int(number))

    def _find(self, partition: Partition, offset: int) -> Page | Pending[Page]:
        log = partition.log
        if log is None:
            return plain_page(HTTPStatus.NOT_FOUND, "the replica here is offline")
        place = ask_place(log, offset)
        if place is None:
            sentence = f"the log here has the offsets from {log.log_start_offset} up to {log.log_end_offset}, exclusive"
            return plain_page(HTTPStatus.NOT_FOUND, sentence)
        if self._reads >= READS_MAX:
            return plain_page(HTTPStatus.SERVICE_UNAVAILABLE, f"{READS_MAX} others are being answered: try again")
        page: Pending[Page] = Pending()

        def found(outcome: BatchPlace | BaseException | None) -> None:
            self._reads -= 1
            page.complete(self._page_of(partition, outcome))

        self._reads += 1
        self._slow_work.submit(place.find, found)
        return page

    def _page_of(self, partition: Partition, outcome: BatchPlace | BaseException | None) -> Page:
        log = partition.log
        if isinstance(outcome, PLACE_ERRORS):
            return plain_page(HTTPStatus.INTERNAL_SERVER_ERROR, str(outcome))
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome is None or log is None:
            return plain_page(HTTPStatus.NOT_FOUND, "there is no such batch here any more")
        header = outcome.header
        told = {
            "node": self._node.node_id,
            "topic": partition.topic_partition.topic,
            "partition": partition.topic_partition.partition,
            "segment": {"file": outcome.file, "base_offset": outcome.segment.base_offset, "size": outcome.segment.size},
            "segments": outcome.segments,
            "segment_count": outcome.segment_count,
            "batch": {
                "position": outcome.position,
                "size": header.size_bytes,
                "is_valid": outcome.is_valid,
                **msgspec.structs.asdict(header),
                "last_offset": header.last_offset,
                "last_sequence": header.last_sequence,
                "codec": header.codec.name.lower(),
                "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
                "is_transactional": header.is_transactional,
                "is_control": header.is_control,
            },
            "index": outcome.index,
            "leo": log.log_end_offset,
            "hw": log.high_watermark,
            "lso": log.last_stable_offset,
            "log_start": log.log_start_offset,
            "leader_epoch": partition.leader_epoch,
            "epochs": [[each.epoch, each.start_offset] for each in log.leader_epochs.entries[-EPOCHS_MAX:]],
        }
        return Page(HTTPStatus.OK, CONTENT_TYPE, [msgspec.json.encode(told) + b"\n"])
