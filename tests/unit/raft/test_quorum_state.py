from __future__ import annotations

import pytest

from tidelog.model.ids import DirectoryId, LeaderEpoch, NodeId, uuid_from_text
from tidelog.raft.errors import QuorumStateError
from tidelog.raft.quorum_state import DYNAMIC_VOTERS, STATIC_VOTERS, QuorumState, from_text, to_text
from tidelog.raft.voter_set import ReplicaKey

DIRECTORY = DirectoryId(uuid_from_text("J8aAPcfLQt2bqs1JT_rMgQ"))
THREE = (NodeId(1), NodeId(2), NodeId(3))

# Written by Apache Kafka 4.3.1's FileQuorumStateStore.
WRITTEN_BY_KAFKA = [
    (
        (
            '{"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":-1,"appliedOffset":0,'
            '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
        ),
        QuorumState(LeaderEpoch(5), NodeId(1), None, THREE, STATIC_VOTERS),
    ),
    (
        '{"leaderId":1,"leaderEpoch":5,"votedId":2,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}',
        QuorumState(LeaderEpoch(5), NodeId(1), ReplicaKey(NodeId(2), DIRECTORY), (), DYNAMIC_VOTERS),
    ),
    (
        (
            '{"clusterId":"","leaderId":-1,"leaderEpoch":7,"votedId":2,"appliedOffset":0,'
            '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
        ),
        QuorumState(LeaderEpoch(7), None, ReplicaKey(NodeId(2)), THREE, STATIC_VOTERS),
    ),
    (
        '{"leaderId":-1,"leaderEpoch":0,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        QuorumState(LeaderEpoch(0), None, None, (), DYNAMIC_VOTERS),
    ),
    (
        '{"clusterId":"","leaderId":-1,"leaderEpoch":0,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}',
        QuorumState(LeaderEpoch(0), None, None, (), STATIC_VOTERS),
    ),
]


@pytest.mark.parametrize(("text", "state"), WRITTEN_BY_KAFKA)
def test_a_state_is_written_byte_for_byte_as_kafka_writes_it(text: str, state: QuorumState) -> None:
    assert to_text(state) == text


@pytest.mark.parametrize(("text", "state"), WRITTEN_BY_KAFKA)
def test_what_kafka_wrote_is_read(text: str, state: QuorumState) -> None:
    assert from_text(text) == state


def test_a_static_vote_forgets_the_directory() -> None:
    state = QuorumState(LeaderEpoch(7), None, ReplicaKey(NodeId(2), DIRECTORY), THREE, STATIC_VOTERS)

    assert from_text(to_text(state)).voted_key == ReplicaKey(NodeId(2))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ("[]", "object"),
        ("[" * 100_000, "JSON"),
        (" " * (1 << 20) + "{}", "characters"),
        ("{}", "data_version"),
        ('{"data_version":2}', "data_version"),
        ('{"data_version":true}', "data_version"),
        ('{"data_version":1}', "leaderId"),
        ('{"leaderId":-2,"leaderEpoch":0,"votedId":-1,"votedDirectoryId":"","data_version":1}', "leaderId"),
        ('{"leaderId":1,"leaderEpoch":-1,"votedId":-1,"votedDirectoryId":"","data_version":1}', "leaderEpoch"),
        ('{"leaderId":1,"leaderEpoch":99999999999,"votedId":-1,"data_version":1}', "leaderEpoch"),
        ('{"leaderId":1,"leaderEpoch":1,"votedId":"2","data_version":1}', "votedId"),
        ('{"leaderId":1,"leaderEpoch":1,"votedId":2,"votedDirectoryId":"short","data_version":1}', "votedDirectoryId"),
        ('{"leaderId":1,"leaderEpoch":1,"votedId":2,"votedDirectoryId":7,"data_version":1}', "votedDirectoryId"),
        ('{"leaderId":1,"leaderEpoch":1,"votedId":2,"currentVoters":7,"data_version":0}', "currentVoters"),
        ('{"leaderId":1,"leaderEpoch":1,"votedId":2,"currentVoters":[{}],"data_version":0}', "voterId"),
    ],
)
def test_anything_else_is_refused_in_one_sentence(text: str, word: str) -> None:
    with pytest.raises(QuorumStateError, match=word):
        from_text(text)
