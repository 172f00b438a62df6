"""Groups whose members come, crash and leave at random for minutes, while records flow and their coordinator is restarted.

`SOAK_MINUTES` says for how long, `SOAK_SEED` which history; what the seed fixes is who comes and goes, not how long that takes.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random, SystemRandom

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

from tests.support.group_members import CLIENTS, MemberProcess, are_shared, wait_for_all
from tests.support.group_topics import GROUP_SETTINGS, TIMEOUT_S, Topics, numbers
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.soak

PARTITIONS = 8
MEMBERS_MAX = 4
ROUND_S = 1.0
RECORDS_A_ROUND = 40
# A death is noticed after a session (1.5 s; 2 s in the new protocol), and the others may wait for a rebalance; with a loaded
# machine and a restarted coordinator in between, this is far beyond what is seen.
UNOWNED_MAX_S = 45.0
CONSUMER: dict[str, object] = {"group.protocol": "consumer"}


class Crowd:
    """The members of one group, dead or alive."""

    def __init__(self, bootstrap: str, group: str, topic: str, kinds: list[tuple[str, dict[str, object]]]) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._kinds = kinds
        self.group = group
        self.living: list[MemberProcess] = []
        self.dead: list[MemberProcess] = []
        self.committed: dict[tuple[str, int], int] = {}
        self._owned_at = dict.fromkeys(range(PARTITIONS), time.monotonic())

    def change(self, random: Random) -> None:
        """One comes, crashes or leaves; the last one stays."""
        what = random.choice(("come", "come", "crash", "leave", "nothing"))
        if len(self.living) < 2 or (what == "come" and len(self.living) < MEMBERS_MAX):
            client, settings = random.choice(self._kinds)
            self.living.append(
                MemberProcess(client, self._bootstrap, self.group, [self._topic], settings=settings).__enter__()
            )
        elif what in {"crash", "leave"}:
            member = self.living.pop(random.randrange(len(self.living)))
            self.dead.append(member)
            if what == "crash":
                member.kill()
            else:
                member.leave()

    def end(self) -> None:
        for member in self.living:
            member.kill()

    def check_ownership(self) -> None:
        """No partition is without an owner for long."""
        now_s = time.monotonic()
        for member in self.living:
            for _, partition in member.assigned.copy():
                self._owned_at[partition] = now_s
        lost = {index: round(now_s - at) for index, at in self._owned_at.items() if now_s - at > UNOWNED_MAX_S}
        assert not lost, f"{self.group}: nobody has had {lost}: {'; '.join(map(str, self.living))}"

    def check_offsets(self, topics: Topics) -> None:
        """Nothing that is committed goes back."""
        try:
            asked = topics.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])
            found = asked[self.group].result(TIMEOUT_S).topic_partitions
        except KafkaException:
            # The coordinator was just restarted; the next round asks again.
            return
        now = {(each.topic, each.partition): each.offset for each in found}
        back = {
            where: (self.committed[where], now.get(where))
            for where in self.committed
            if now.get(where, -1) < self.committed[where]
        }
        assert not back, f"{self.group}: {back}"
        self.committed = now

    def read(self) -> set[str]:
        return {value for member in (*self.living, *self.dead) for value in member.values}


def test_members_come_and_go_and_nothing_is_lost(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED") or SystemRandom().randrange(2**32))
    minutes = float(os.environ.get("SOAK_MINUTES") or 3)
    print(f"SOAK_SEED={seed}")
    random = Random(seed)
    node = TidelogNode.at(tmp_path, **GROUP_SETTINGS)
    node.start()
    topics = Topics(node.bootstrap)
    topic = topics.make(PARTITIONS)
    crowds = [
        Crowd(node.bootstrap, "classic", topic, [(client, {}) for client in CLIENTS]),
        Crowd(node.bootstrap, "consumer", topic, [("confluent", CONSUMER)]),
        # Groups whose members speak both protocols are converted back and forth as they come and go.
        Crowd(node.bootstrap, "both", topic, [("confluent", CONSUMER), ("confluent", {}), ("aiokafka", {})]),
    ]
    sent = 0
    try:
        end_s = time.monotonic() + 60 * minutes
        while time.monotonic() < end_s:
            round_end_s = time.monotonic() + ROUND_S
            for crowd in crowds:
                crowd.change(random)
            if random.random() < 0.05:
                random.choice((node.stop, node.kill))()
                node.start()
            topics.send(topic, PARTITIONS, numbers(sent, sent + RECORDS_A_ROUND))
            sent += RECORDS_A_ROUND
            for crowd in crowds:
                crowd.check_offsets(topics)
                crowd.check_ownership()
            time.sleep(max(0.0, round_end_s - time.monotonic()))
        everything = set(numbers(0, sent))
        every = [(topic, index) for index in range(PARTITIONS)]
        for crowd in crowds:
            wait_for_all(crowd.living, lambda: are_shared(crowd.living, every), "they share the partitions")  # noqa: B023
            wait_for_all(crowd.living, lambda: crowd.read() >= everything, "every record was read")  # noqa: B023
            wait_for_all(
                crowd.living,
                lambda: sum(topics.committed(crowd.group, topic, PARTITIONS)) == sent,  # noqa: B023
                "every record is committed",
            )
            crowd.check_offsets(topics)
    finally:
        for crowd in crowds:
            crowd.end()
        node.kill()
