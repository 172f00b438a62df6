"""Keep a partition on disk, stop, come back, and read it as rows and as Arrow columns.

    python examples/keep_a_log.py [DIRECTORY]

The directory is what Apache Kafka would keep: look at it with `tidelog dump-log DIRECTORY/orders-0/*.log`.
"""

from __future__ import annotations

import random
import sys
import tempfile

from tidelog.model.clock import SystemClock
from tidelog.model.ids import BrokerEpoch, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.checked_batches import check_produced
from tidelog.storage.fetched import Fetched
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.os_files import OsFiles
from tidelog.storage.seams import Seams
from tidelog.wire.columns import read_columns
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch, decode_rows

ORDERS = TopicPartition(TopicName("orders"), PartitionIndex(0))


def open_directory(path: str) -> LogDirectory:
    """A node's log directory. A program that runs an event loop would pass threads for the slow work."""
    seams = Seams(OsFiles(), SystemClock(), InlineSlowWork(), random.Random())
    directory = LogDirectory.open(seams, path, config_of=lambda _topic: LogConfig())
    directory.load()
    return directory


def write(path: str) -> None:
    directory = open_directory(path)
    log = directory.create_partition(ORDERS, TopicId(random.randbytes(16)))
    now_ms = SystemClock().now_ms()
    for number in range(3):
        rows = [Record(each, now_ms, b"order-%d" % number, b"item %d" % each, ()) for each in range(4)]
        batch = check_produced(build_batch(rows, codec=Compression.ZSTD))
        if isinstance(batch, AppendRefused):
            sys.exit(f"refused: {batch.reason}")
        (first_offset,) = log.append([batch], AppendRule.LEADER, leader_epoch=0)
        print(f"appended {batch.record_count} records at offset {first_offset}")
    log.set_high_watermark(log.log_end_offset)
    directory.save_high_watermarks()
    directory.close(BrokerEpoch(1))


def read(path: str) -> None:
    directory = open_directory(path)
    log = directory.partitions[ORDERS]
    fetched = log.read(5, bytes_max=1_000_000)
    if not isinstance(fetched, Fetched):
        sys.exit(f"no such offset: {fetched.message}")
    for region in fetched.regions:
        batches = region.read()
        print(f"{region.count} bytes in the file from position {region.position}; its first batch holds:")
        for row in decode_rows(batches):
            print(f"  {row.offset} {row.key!r} {row.value!r}")
        print(f"all of it as columns: {read_columns(batches).select(['offset', 'key', 'value']).to_pydict()}")
    directory.close(BrokerEpoch(2))


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        path = sys.argv[1] if len(sys.argv) > 1 else f"{temporary}/data"
        write(path)
        read(path)


if __name__ == "__main__":
    main()
