"""Write orders, kill the writer in the middle of it, and account for every order it had made durable.

    python examples/survive_a_kill.py [DIRECTORY]

A child process appends orders in batches of an idempotent producer, forces each hundredth batch to disk and says so. The parent
kills it with SIGKILL, opens the directory as a restart would (the torn tail is cut, the indexes are rebuilt), and checks:
nothing that was durable is lost, nothing stands twice, nothing was invented, and `tidelog verify` finds every file consistent.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tidelog.model.clock import SystemClock
from tidelog.model.ids import BrokerEpoch, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork
from tidelog.storage.append import AppendInfo, AppendOutcome, AppendRefused, AppendRule
from tidelog.storage.checked_batches import check_produced
from tidelog.storage.fetched import Fetched
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.os_files import OsFiles
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.seams import Seams
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import each_batch
from tidelog.wire.records import Record, build_batch, decode_rows

ORDERS = TopicPartition(TopicName("orders"), PartitionIndex(0))
STATES = (b"placed", b"paid", b"shipped", b"delivered")
PRODUCER_ID = 4711
FLUSHES_BEFORE_THE_KILL = 20


def open_directory(path: str) -> LogDirectory:
    seams = Seams(OsFiles(), SystemClock(), InlineSlowWork(), random.Random())
    # Small segments, so that the kill finds a log of many files.
    directory = LogDirectory.open(seams, path, config_of=lambda _topic: LogConfig(segment_bytes=64 * 1024))
    directory.load()
    return directory


def order_batch(order: int) -> bytes:
    """The four records of one order: one batch, so that an order is there as a whole or not at all."""
    rows = [
        Record(each, 1_700_000_000_000 + order, b"order-%d" % order, state, ()) for each, state in enumerate(STATES)
    ]
    codec = list(Compression)[order % len(Compression)]
    return bytes(build_batch(rows, codec=codec, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=4 * order))


def append(log: PartitionLog, batch: bytes, leader_epoch: int) -> AppendOutcome:
    """As the leader of a partition appends what a producer has sent."""
    checked = check_produced(batch)
    if isinstance(checked, AppendRefused):
        return checked
    return log.append([checked], AppendRule.LEADER, leader_epoch)[0]


def write(path: str) -> None:
    """Appends until it is killed. Prints how many orders are durable, each time that is certain."""
    log = open_directory(path).create_partition(ORDERS, TopicId(random.randbytes(16)))
    order = 0
    while True:
        appended = append(log, order_batch(order), leader_epoch=0)
        if isinstance(appended, AppendRefused):
            sys.exit(f"refused: {appended.reason}")
        order += 1
        if order % 100 == 0:
            log.flush()
            print(order, flush=True)


def write_and_kill(path: str) -> int:
    """Runs the writer and kills it in the middle. The number of orders that it knew to be durable."""
    writer = subprocess.Popen([sys.executable, __file__, "--write", path], stdout=subprocess.PIPE, text=True)
    durable = 0
    with writer:
        assert writer.stdout is not None
        for _ in range(FLUSHES_BEFORE_THE_KILL):
            durable = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        # What it said between the last line read and its death counts as well.
        later = writer.stdout.read().split()
    return int(later[-1]) if later else durable


def orders_in(directory: LogDirectory) -> list[int]:
    """Every order in the log, in order; an order that is not whole is an error."""
    log = directory.partitions[ORDERS]
    log.set_high_watermark(log.log_end_offset)
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        fetched = log.read(offset, bytes_max=1_000_000)
        if not isinstance(fetched, Fetched):
            sys.exit(f"offset {offset} cannot be read: {fetched.message}")
        for region in fetched.regions:
            batches = region.read()
            for position, header in each_batch(batches):
                rows = decode_rows(batches, position)
                (key,) = {row.key for row in rows}
                if tuple(row.value for row in rows) != STATES or key is None:
                    sys.exit(f"the order at offset {header.base_offset} is not whole")
                found.append(int(key.removeprefix(b"order-")))
                offset = type(offset)(header.next_offset)
    return found


def main() -> None:
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2])
        return
    with tempfile.TemporaryDirectory() as temporary:
        path = sys.argv[1] if len(sys.argv) > 1 else f"{temporary}/data"
        durable = write_and_kill(path)
        print(f"killed the writer; it knew of {durable} durable orders")
        directory = open_directory(path)
        segments = len(list(Path(path, str(ORDERS)).glob("*.log")))
        found = orders_in(directory)
        again = append(directory.partitions[ORDERS], order_batch(found[-1]), leader_epoch=1)
        directory.close(BrokerEpoch(1))
        if found != list(range(len(found))):
            sys.exit("orders are missing, doubled or out of order")
        if len(found) < durable:
            sys.exit(f"only {len(found)} orders are left of {durable} that were durable")
        if not isinstance(again, AppendInfo) or not again.is_duplicate:
            sys.exit("the producer was forgotten: its last batch was taken a second time")
        print(
            f"recovered {len(found)} orders in {segments} segments, each whole, once and in order; the producer is remembered"
        )
        subprocess.run([Path(sys.executable).with_name("tidelog"), "verify", path], check=True)
        print("demo passed: every order is accounted for")


if __name__ == "__main__":
    main()
