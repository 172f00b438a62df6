"""Orders live, an exactly-once pipeline and a service beside it, things that die in the middle, and an account of it all.

    python -m examples.orders_demo [--orders N] [--minutes M] [--seed S] [--nodes N] [--directory DIR]

Three nodes run on this machine. A shop writes the events of its orders (generator.py), a minute of its clock in a second. Two
groups read all of them: a pipeline of Spark (pipeline.py), and a service of two members that notifies customers
(notifications.py). While events flow, one of the two members leaves, the pipeline is killed, Python and Java, and started again,
and a node that leads partitions is killed. In the end all that came of it is read back and compared with what the shop has
written to a file (verification.py): every order counted once, every notification in order. If it is not so, one sentence says
what, with exit code 1. DIR/orders.svg shows what happened when.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from examples.orders_demo.cluster import running_cluster
from examples.orders_demo.generator import plan
from examples.orders_demo.monitor import Monitor
from examples.orders_demo.picture import picture
from examples.orders_demo.processes import ROOT, DemoError, Part, PipelinePart
from examples.orders_demo.shop import NOTIFICATIONS_GROUP, ORDERS, REVENUE
from examples.orders_demo.verification import CheckError, read_committed, verify, verify_audit
from tidelog import Admin
from tidelog.client.errors import ClientError

DIRECTORY = ROOT / "build" / "demo"
FILE = "orders.jsonl"

# A wait that takes this long on a busy machine will never end.
DEADLINE_S = 180.0
POLL_S = 0.05

# Shares of the stream that are written by then.
LEAVES_AT, PIPELINE_DIES_AT, BROKER_DIES_AT = 0.35, 0.49, 0.75
QUERIES = 3


class Demo:
    """One run, in a directory of its own."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._directory: Path = given.directory
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    def run(self) -> None:
        records = len(plan(self._given.seed, self._given.orders, self._given.minutes))
        with ExitStack() as stack:
            self.say(f"starting {self._given.nodes} nodes")
            cluster = stack.enter_context(running_cluster(self._directory / "cluster", self._given.nodes))
            cluster.create_topics()
            bootstrap = cluster.bootstrap
            self.say(f"the cluster serves at {bootstrap}; starting two consumers and Spark")
            pipeline = stack.enter_context(self._pipeline(bootstrap))
            anna, ben = (stack.enter_context(self._member(bootstrap, name)) for name in ("anna", "ben"))
            self._until(lambda: members(bootstrap) == 2, "the two consumers do not share their partitions", anna, ben)
            self._until(lambda: pipeline.is_ready, "the pipeline does not start", pipeline)
            self.say("the pipeline runs; the shop opens")
            shop = stack.enter_context(self._shop(bootstrap))
            admin = stack.enter_context(Admin(bootstrap_servers=bootstrap))
            monitor = stack.enter_context(Monitor(admin, records, self.say))

            def written(share: float) -> Callable[[], bool]:
                return lambda: monitor.share_written >= share

            self._until(written(LEAVES_AT), "the shop is too slow", shop, pipeline, anna, ben)
            anna.leave()
            monitor.mark("one consumer has left")

            self._until(written(PIPELINE_DIES_AT), "the shop is too slow", shop, pipeline, ben)
            # A batch of each query, so that it has decided about something. On a slow machine the shop rests until then.
            self._until(lambda: len(pipeline.batches) == QUERIES, "the pipeline makes no batches", shop, pipeline, ben)
            pipeline.kill()
            monitor.mark(f"pipeline killed after batch {pipeline.batches['revenue'][-1]}")
            again = stack.enter_context(self._pipeline(bootstrap))
            shop.go_on()

            self._until(written(BROKER_DIES_AT), "the shop is too slow", shop, again, ben)
            if self._given.nodes > 1:
                monitor.mark(f"node {cluster.kill_leader_of(ORDERS, 0)} killed")

            shop.wait()
            monitor.mark("the shop closes")
            again.end_input()
            # Not "is nothing behind": a look just before the shop's last records found that, too.
            self._until(lambda: monitor.has_read_all(NOTIFICATIONS_GROUP), "the consumer does not catch up", ben)
            ben.leave()
            again.wait()
            monitor.mark("the pipeline has caught up")
            if pipeline.rows_dropped + again.rows_dropped:
                raise DemoError("the watermark shut out rows that were in time")
            self._verify(bootstrap, monitor)

    def _pipeline(self, bootstrap: str) -> PipelinePart:
        return PipelinePart(bootstrap, self._directory / "pipeline", log=self._directory / "pipeline.log")

    def _member(self, bootstrap: str, name: str) -> Part:
        return Part(name, "notifications", bootstrap, name, log=self._directory / f"{name}.log")

    def _shop(self, bootstrap: str) -> Part:
        size = ["--orders", str(self._given.orders), "--minutes", str(self._given.minutes)]
        where = [bootstrap, str(self._directory / FILE), "--seed", str(self._given.seed), "--rest"]
        return Part("the shop", "generator", *where, *size, log=self._directory / "shop.log")

    def _until(self, condition: Callable[[], bool], otherwise: str, *parts: Part) -> None:
        """Wait for something that the parts do. DemoError where it does not come, or one of them fails."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            for part in parts:
                part.check()
            if time.monotonic() > deadline:
                raise DemoError(otherwise)
            time.sleep(POLL_S)

    def _verify(self, bootstrap: str, monitor: Monitor) -> None:
        for sentence in verify(bootstrap, self._directory / FILE, self._directory / "pipeline"):
            self.say(f"verified: {sentence}")
        for sentence in verify_audit(bootstrap, "paid_orders"):
            self.say(f"audited: {sentence}")
        revenue = {}
        for read in read_committed(bootstrap, REVENUE):
            row = json.loads(read.value)
            revenue[row["minute_ms"], row["product"]] = row["cents"]
        path = self._directory / "orders.svg"
        path.write_text(picture(revenue, monitor.course))
        self.say(f"demo passed: every order is counted once, every notification is in order; {path} shows it")


def members(bootstrap: str) -> int:
    """How many members of the notifying group have partitions."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        try:
            group = admin.describe_group(NOTIFICATIONS_GROUP)
        except ClientError:
            # Nobody has joined yet.
            return 0
    return sum(bool(member.assignment) for member in group.members)


def prepare(directory: Path) -> None:
    """Make the directory, without what a run before has left in it."""
    if directory.exists() and any(directory.iterdir()):
        if not (directory / "cluster").is_dir():
            sys.exit(f"{directory} holds something else: choose another directory with --directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.orders_demo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--orders", type=int, default=3000)
    parser.add_argument("--minutes", type=int, default=40, help="of the shop's clock, in which orders are placed")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=DIRECTORY)
    return parser.parse_args(arguments)


def main() -> None:
    given = parse()
    given.directory = given.directory.absolute()
    prepare(given.directory)
    try:
        Demo(given).run()
    except (DemoError, CheckError, ClientError) as error:
        sys.exit(f"demo failed: {error}")


if __name__ == "__main__":
    main()
