"""Groups of both protocols, and the offsets that they commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.answer_scenarios.recorder import FIRST, GROUP, UNKNOWN_ID, Recorder, versions_of
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

SETTINGS: Mapping[str, str] = {
    # Members come and go when the story says so.
    "group.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "60000",
}
ORDERS, OTHERS = "orders", "others"
SESSION_MS = 500_000
MEMBER_ID_REQUIRED = 79
HELD = "held"


def commit(
    talk: Recorder,
    version: int,
    group_id: str,
    topics: Mapping[str, Mapping[int, int]],
    *,
    member: tuple[str, int] = ("", -1),
    instance_id: str | None = None,
    metadata: str | None = "note",
    leader_epoch: int = -1,
) -> OffsetCommitRequest:
    member_id, epoch = member
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id if version >= 7 else None,
        topics=[
            OffsetCommitRequestTopic(
                name=name if version < 10 else "",
                topic_id=talk.topic_ids.get(name, UNKNOWN_ID) if version >= 10 else bytes(16),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    )
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def offsets_of(
    talk: Recorder,
    version: int,
    group_id: str,
    topics: Mapping[str, Sequence[int]] | None,
    *,
    member: tuple[str | None, int] = (None, -1),
    others: Sequence[str] = (),
    require_stable: bool = False,
) -> OffsetFetchRequest:
    if version < 8:
        return OffsetFetchRequest(
            group_id=group_id,
            topics=None
            if topics is None
            else [OffsetFetchRequestTopic(name=name, partition_indexes=list(each)) for name, each in topics.items()],
            groups=[],
            require_stable=require_stable if version == 7 else False,
        )
    named = (
        None
        if topics is None
        else [
            OffsetFetchRequestTopics(
                name=name if version < 10 else "",
                topic_id=talk.topic_ids.get(name, UNKNOWN_ID) if version >= 10 else bytes(16),
                partition_indexes=list(each),
            )
            for name, each in topics.items()
        ]
    )
    groups = [
        OffsetFetchRequestGroup(group_id=each, member_id=member[0], member_epoch=member[1], topics=named)
        for each in (group_id, *others)
    ]
    return OffsetFetchRequest(groups=groups, require_stable=require_stable)


class Member:
    """A member of a classic group, as far as it got."""

    def __init__(self, talk: Recorder, group_id: str, on: str, *, instance_id: str | None = None) -> None:
        self._talk = talk
        self.group_id = group_id
        self.on = on
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1

    def joining(self, version: int, protocols: Sequence[str] = ("range",), **changes: object) -> JoinGroupRequest:
        fields: dict[str, object] = {
            "group_id": self.group_id,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS if version >= 1 else -1,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id if version >= 5 else None,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in protocols],
            **changes,
        }
        return JoinGroupRequest(**fields)  # type: ignore[arg-type]

    def send_join(self, version: int) -> None:
        label = f"v{version} join {self.group_id}"
        self._talk.send(label, self._talk.frame(self.joining(version), version), on=self.on)
        self._talk.settle(label)

    def joined(self, version: int) -> JoinGroupResponse:
        answer = self._talk.answered(f"v{version} joined {self.group_id}", JoinGroupResponse, version, on=self.on)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, version: int) -> JoinGroupResponse:
        self.send_join(version)
        answer = self.joined(version)
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.send_join(version)
            answer = self.joined(version)
        return answer

    def syncing(self, version: int, members: Sequence[Member] = (), **changes: object) -> SyncGroupRequest:
        fields: dict[str, object] = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id if version >= 3 else None,
            "protocol_type": "consumer" if version >= 5 else None,
            "protocol_name": "range" if version >= 5 else None,
            "assignments": [
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=f"for {each.on}".encode())
                for each in members
            ],
            **changes,
        }
        return SyncGroupRequest(**fields)  # type: ignore[arg-type]

    def sync(self, version: int, members: Sequence[Member] = (), **changes: object) -> None:
        label = f"v{version} sync {self.group_id}"
        self._talk.ask(label, self.syncing(version, members, **changes), version, SyncGroupResponse, on=self.on)

    def beating(self, version: int, **changes: object) -> HeartbeatRequest:
        fields: dict[str, object] = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id if version >= 3 else None,
            **changes,
        }
        return HeartbeatRequest(**fields)  # type: ignore[arg-type]

    def beat(self, version: int, label: str, **changes: object) -> None:
        request = self.beating(version, **changes)
        self._talk.ask(f"v{version} heartbeat {label}", request, version, HeartbeatResponse, on=self.on)

    @property
    def identity(self) -> tuple[str, int]:
        return self.member_id, self.generation


def tell(talk: Recorder) -> None:
    talk.create(ORDERS, partitions=3)
    talk.create(OTHERS)
    talk.coordinate(GROUP, "simple")
    # Both partitions of the offsets' topic have to be there.
    for name in ("a", "b", "c", "classic", "consumers"):
        talk.coordinate(GROUP, name)
    simple_commits(talk)
    classic(talk)
    consumers(talk)


def simple_commits(talk: Recorder) -> None:
    """Of groups without members."""
    for version in versions_of(OffsetCommitRequest):
        simple_commit(talk, version)
    talk.tell(
        "commits of one read",
        *(talk.frame(commit(talk, 9, "simple", {ORDERS: {each % 3: each}}), 9) for each in range(6)),
    )
    for version in versions_of(OffsetFetchRequest):
        simple_offsets(talk, version)


def simple_commit(talk: Recorder, version: int) -> None:
    """Good and bad ones."""

    def ask(label: str, topics: Mapping[str, Mapping[int, int]], group: str = "simple", **options: object) -> None:
        request = commit(talk, version, group, topics, **options)  # type: ignore[arg-type]
        talk.ask(f"commit v{version} {label}", request, version, OffsetCommitResponse)

    ask("one", {ORDERS: {0: version}})
    ask("several", {ORDERS: {0: 1, 2: 3}, OTHERS: {0: 5}})
    ask("without a note", {ORDERS: {1: 3}}, metadata=None)
    ask("an empty note", {ORDERS: {1: 3}}, metadata="")
    ask("a note too long", {ORDERS: {0: 1}}, metadata="n" * 5_000)
    ask("a leader epoch", {ORDERS: {0: 9}}, leader_epoch=4)
    ask("unknown ones", {ORDERS: {7: 1}, "nobody": {0: 1}})
    ask("good and unknown ones", {ORDERS: {0: 1, 7: 1}, "nobody": {0: 1}, OTHERS: {0: 2}})
    ask("no topics", {})
    ask("no partitions", {ORDERS: {}})
    ask("no group", {ORDERS: {0: 1}}, group="")
    ask("a member of no group", {ORDERS: {0: 1}}, member=("who", 1))
    ask("a generation without a member", {ORDERS: {0: 1}}, member=("", 3))
    ask("a negative offset", {ORDERS: {0: -5}})
    talk.bent("commit", commit(talk, version, "simple", {ORDERS: {0: 7}}), version)


def simple_offsets(talk: Recorder, version: int) -> None:
    """What such groups have committed."""

    def fetch(label: str, topics: Mapping[str, Sequence[int]] | None, group: str = "simple", **options: object) -> None:
        request = offsets_of(talk, version, group, topics, **options)  # type: ignore[arg-type]
        talk.ask(f"offsets v{version} {label}", request, version, OffsetFetchResponse)

    fetch("one", {ORDERS: [0]})
    fetch("several", {ORDERS: [0, 1, 2], OTHERS: [0]})
    fetch("unknown ones", {ORDERS: [7], "nobody": [0]})
    fetch("of an unknown group", {ORDERS: [0]}, group="nobody's")
    fetch("no topics", {})
    fetch("of no group", {ORDERS: [0]}, group="")
    if version >= 2:
        fetch("all", None)
    if version >= 7:
        fetch("stable ones", {ORDERS: [0]}, require_stable=True)
    if version >= 8:
        fetch("of several groups", {ORDERS: [0]}, others=["nobody's", "simple"])
    if version >= 9:
        fetch("of an unknown member", {ORDERS: [0]}, member=("who", 3))
    talk.bent("offsets", offsets_of(talk, version, "simple", {ORDERS: [0]}), version)


def classic(talk: Recorder) -> None:
    for version in versions_of(JoinGroupRequest):
        one_classic_group(talk, version)
    static(talk)
    held = Member(talk, HELD, FIRST)
    held.join(9)
    held.sync(5, [held])
    for version in versions_of(HeartbeatRequest):
        held.beat(version, "")
        held.beat(version, "another generation", generation_id=held.generation + 1)
        held.beat(version, "unknown member", member_id="who")
        held.beat(version, "no member", member_id="")
        held.beat(version, "unknown group", group_id="nobody's")
        held.beat(version, "no group", group_id="")
        if version >= 3:
            held.beat(version, "unknown instance", group_instance_id="which")
        talk.bent("heartbeat", held.beating(version), version)
    talk.tell("heartbeats of one read", *(talk.frame(held.beating(each), each) for each in range(5)))
    for version in versions_of(SyncGroupRequest):
        held.sync(version)
        held.sync(version, generation_id=held.generation + 1)
        held.sync(version, member_id="who")
        held.sync(version, group_id="nobody's")
        if version >= 5:
            held.sync(version, protocol_name="other")
        talk.bent("sync", held.syncing(version), version)
    for version in versions_of(OffsetCommitRequest):
        member_commits(talk, version, held)
    for version in (9, 10):
        request = offsets_of(talk, version, HELD, {ORDERS: [0]}, member=held.identity)
        talk.ask(f"offsets v{version} of a member", request, version, OffsetFetchResponse)


def member_commits(talk: Recorder, version: int, held: Member) -> None:
    """Commits of a member, of one that it is not, and of one that was."""

    def ask(label: str, member: tuple[str, int], topics: Mapping[str, Mapping[int, int]] | None = None) -> None:
        request = commit(talk, version, HELD, topics or {ORDERS: {0: 4}}, member=member)
        talk.ask(f"commit v{version} of a member {label}", request, version, OffsetCommitResponse)

    ask("", held.identity)
    ask("of several", held.identity, {ORDERS: {0: 4, 1: 5}, OTHERS: {0: 6}})
    ask("of unknown ones", held.identity, {ORDERS: {0: 4, 9: 5}, "nobody": {0: 6}})
    ask("of another generation", (held.member_id, 9))
    ask("that is unknown", ("who", held.generation))
    ask("that is none", ("", -1))


def one_classic_group(talk: Recorder, version: int) -> None:
    """Two members join, synchronise, beat and leave, with the versions of the other requests that go with this one."""
    group_id = f"classic-{version}"
    first, second = Member(talk, group_id, FIRST), Member(talk, group_id, "b")
    sync, beat, leave = min(version, 5), min(version, 4), min(version, 5)
    first.join(version)
    first.sync(sync, [first])
    first.beat(beat, "alone")
    # The second one waits until the first has joined again.
    second.send_join(version)
    if version >= 4:
        second.joined(version)
        second.send_join(version)
    first.beat(beat, "while somebody joins")
    talk.ask(
        f"v{version} commit while somebody joins",
        commit(talk, 7, group_id, {ORDERS: {0: 1}}, member=first.identity),
        7,
        OffsetCommitResponse,
    )
    first.join(version)
    second.joined(version)
    first.beat(beat, "before the assignment")
    # The follower asks first, and is answered when the leader has.
    label = f"v{sync} a follower's sync waits"
    talk.send(label, talk.frame(second.syncing(sync), sync), on="b")
    talk.settle(label)
    first.sync(sync, [first, second])
    talk.answered(label, SyncGroupResponse, sync, on="b")
    second.beat(beat, "in a stable group")
    unknown = Member(talk, group_id, FIRST)
    for label, request in {
        "no group": first.joining(version, group_id=""),
        "an unknown member": unknown.joining(version, member_id="who"),
        "another protocol": unknown.joining(version, ("other",)),
        "another type": unknown.joining(version, protocol_type="connect"),
        "no protocols": unknown.joining(version, ()),
        "a session too short": unknown.joining(version, session_timeout_ms=1),
        "a session too long": unknown.joining(version, session_timeout_ms=700_000),
    }.items():
        talk.ask(f"v{version} join, {label}", request, version, JoinGroupResponse)
    for each in (second, first):
        leaving = (
            LeaveGroupRequest(group_id=group_id, member_id=each.member_id, members=[])
            if leave < 3
            else LeaveGroupRequest(
                group_id=group_id, members=[MemberIdentity(member_id=each.member_id), MemberIdentity(member_id="who")]
            )
        )
        talk.ask(f"v{leave} leave", leaving, leave, LeaveGroupResponse, on=each.on)
    first.beat(beat, "after leaving")
    talk.bent("join", unknown.joining(version, session_timeout_ms=1), version)


def static(talk: Recorder) -> None:
    for version in range(5, 10):
        member = Member(talk, f"static-{version}", FIRST, instance_id="one")
        member.join(version)
        member.sync(min(version, 5), [member])
        member.beat(4, "of a static member")
        again = Member(talk, f"static-{version}", "b", instance_id="one")
        again.join(version)
        again.sync(min(version, 5), [again])
        member.beat(4, "of the one before")
        again.beat(4, "of the one after")
        fenced = commit(talk, 9, member.group_id, {ORDERS: {0: 1}}, member=member.identity, instance_id="one")
        talk.ask("commit of the one before", fenced, 9, OffsetCommitResponse)
        good = commit(talk, 9, member.group_id, {ORDERS: {0: 1}}, member=again.identity, instance_id="one")
        talk.ask("commit of the one after", good, 9, OffsetCommitResponse)


def consumers(talk: Recorder) -> None:
    """KIP-848, both versions."""
    for version in versions_of(ConsumerGroupHeartbeatRequest):
        consumer_group(talk, version)


def consumer_group(talk: Recorder, version: int) -> None:
    """A group of two members, and all that its coordinator refuses."""
    orders, others = talk.topic_ids[ORDERS], talk.topic_ids[OTHERS]

    def beating(group_id: str, member_id: str, epoch: int, **fields: object) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **fields)  # type: ignore[arg-type]

    def owned(*partitions: int, topic: bytes = orders) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=topic, partitions=list(partitions))] if partitions else []

    group_id = f"consumers-{version}"

    def beat(label: str, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        return talk.ask(f"v{version} {label}", request, version, ConsumerGroupHeartbeatResponse)

    fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [ORDERS], "topic_partitions": []}
    one = beat("join", beating(group_id, "one" if version else "", 0, **fields))
    name = one.member_id or ""
    assert one.assignment is not None
    beat("has all", beating(group_id, name, one.member_epoch, topic_partitions=owned(0, 1, 2)))
    for number in range(3):
        beat(f"nothing new {number}", beating(group_id, name, one.member_epoch))
        beat(
            f"nothing new but all fields {number}",
            beating(group_id, name, one.member_epoch, **{**fields, "topic_partitions": owned(0, 1, 2)}),
        )
    for label, request in {
        "an epoch to come": beating(group_id, name, 99),
        "an epoch of the past": beating(group_id, name, one.member_epoch - 1 or -5),
        "an unknown member": beating(group_id, "who", 1),
        "an unknown group": beating("nobody's", "who", 1),
        "no group": beating("", "who", 1),
        "no member": beating(group_id, "", 1),
        "joining without a subscription": beating(group_id, "x", 0, rebalance_timeout_ms=1, topic_partitions=[]),
        "joining without a time-out": beating(group_id, "x", 0, subscribed_topic_names=[], topic_partitions=[]),
        "joining with partitions": beating(group_id, "x", 0, **{**fields, "topic_partitions": owned(1)}),
        "an unknown assignor": beating(group_id, "x", 0, **fields, server_assignor="mine"),
        "an empty rack": beating(group_id, name, one.member_epoch, rack_id=""),
        "an empty instance": beating(group_id, name, one.member_epoch, instance_id=""),
    }.items():
        beat(label, request)
    two = beat("a second joins", beating(group_id, "two" if version else "", 0, **fields))
    second = two.member_id or ""
    told = beat("the first is told", beating(group_id, name, one.member_epoch))
    epoch = told.member_epoch
    kept = told.assignment.topic_partitions[0].partitions if told.assignment else [0, 1, 2]
    first = beat("and gives up", beating(group_id, name, epoch, topic_partitions=owned(*kept)))
    last = beat("the second gets it", beating(group_id, second, two.member_epoch, topic_partitions=[]))
    beat("nothing new for the first", beating(group_id, name, first.member_epoch))
    beat("other topics", beating(group_id, name, first.member_epoch, subscribed_topic_names=[ORDERS, OTHERS]))
    for commit_version in (8, 9, 10):
        for label, member in {
            "of a member": (second, last.member_epoch),
            "of an old epoch": (second, 0),
            "of an unknown one": ("who", 1),
            "of nobody": ("", -1),
        }.items():
            committing = commit(talk, commit_version, group_id, {ORDERS: {0: 2}, OTHERS: {0: 1}}, member=member)
            talk.ask(f"commit v{commit_version} {label}", committing, commit_version, OffsetCommitResponse)
        fetch_version = max(9, commit_version)
        for label, who in {
            "of a member": (second, last.member_epoch),
            "of an old epoch": (second, 0),
            "of an unknown one": ("who", 1),
        }.items():
            asked = offsets_of(talk, fetch_version, group_id, {ORDERS: [0]}, member=who)
            talk.ask(f"offsets v{fetch_version} {label}", asked, fetch_version, OffsetFetchResponse)
    beat("a static member", beating(group_id, "static" if version else "", 0, **fields, instance_id="i"))
    beat("whose instance is taken", beating(group_id, "static-2" if version else "", 0, **fields, instance_id="i"))
    if version:
        beat(
            "a pattern",
            beating("patterns", "p", 0, rebalance_timeout_ms=1000, subscribed_topic_regex="or.*", topic_partitions=[]),
        )
        beat(
            "a bad pattern",
            beating("patterns", "q", 0, rebalance_timeout_ms=1000, subscribed_topic_regex="(", topic_partitions=[]),
        )
    beat("leave", beating(group_id, second, -1))
    beat("after leaving", beating(group_id, second, last.member_epoch))
    classic_member = Member(talk, group_id, FIRST)
    classic_member.send_join(9)
    classic_member.joined(9)
    talk.bent("consumer heartbeat", beating(group_id, name, 1, topic_partitions=owned(0, topic=others)), version)
