"""The control records of the quorum as they lie in the metadata log and at the head of its snapshots.

    LeaderChange    opens every epoch
    KRaftVersion    whether the voters are in the log (1) or in the configuration (0)
    Voters          who votes, from here on

One batch holds those that were written together. `tidelog.raft` knows them without bytes; here they get their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.model.ids import ZERO_UUID, DirectoryId, NodeId
from tidelog.raft.control_records import ControlRecord, KRaftVersion, LeaderChange, Voters
from tidelog.raft.voter_set import Endpoint, ReplicaKey, VersionRange, Voter, VoterSet
from tidelog.wire.control_records import ControlType, control_key, read_control_type
from tidelog.wire.internal_records import decode_control_value, encode_control_value
from tidelog.wire.messages.internal import control_records as wire
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import Message

_VERSION = 0


def build_control_batch(records: Sequence[ControlRecord], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """The batch of control records that a leader writes."""
    rows = control_rows(map(_to_message, records), base_offset, timestamp_ms)
    return build_batch(rows, base_offset=base_offset, leader_epoch=epoch, is_control=True)


def control_rows(messages: Iterable[tuple[ControlType, Message]], base_offset: int, timestamp_ms: int) -> list[Record]:
    """Control records from an offset on."""
    return [
        Record(base_offset + position, timestamp_ms, control_key(control_type), encode_control_value(message, _VERSION))
        for position, (control_type, message) in enumerate(messages)
    ]


def read_control(rows: Iterable[Record]) -> tuple[ControlRecord, ...]:
    """What a control batch says to the quorum. Records of other types, a snapshot's own and unknown ones, are passed over."""
    found: list[ControlRecord] = []
    for row in rows:
        control_type = read_control_type(row.key)
        if control_type in {ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS}:
            found.append(_from_message(decode_control_value(control_type, row.value)))
    return tuple(found)


def to_messages(records: Iterable[ControlRecord]) -> list[tuple[ControlType, Message]]:
    return [_to_message(record) for record in records]


def _to_message(record: ControlRecord) -> tuple[ControlType, Message]:
    match record:
        case LeaderChange(leader_id, voters, granting_voters):
            return ControlType.LEADER_CHANGE, wire.LeaderChangeMessage(
                version=_VERSION,
                leader_id=leader_id,
                voters=[wire.Voter(voter_id=voter_id, voter_directory_id=ZERO_UUID) for voter_id in voters],
                granting_voters=[
                    wire.Voter(voter_id=voter_id, voter_directory_id=ZERO_UUID) for voter_id in granting_voters
                ],
            )
        case KRaftVersion(level):
            return ControlType.KRAFT_VERSION, wire.KRaftVersionRecord(version=_VERSION, kraft_version=level)
        case Voters(voter_set):
            described = [_to_voter(voter) for voter in voter_set.voters]
            return ControlType.KRAFT_VOTERS, wire.VotersRecord(version=_VERSION, voters=described)


def _to_voter(voter: Voter) -> wire.VotersRecordVoter:
    if voter.key.directory_id is None:
        raise ValueError(f"voter {voter.key.id} has no directory id, and only such voters can be written down")
    return wire.VotersRecordVoter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        endpoints=[wire.Endpoint(name=each.listener, host=each.host, port=each.port) for each in voter.endpoints],
        kraft_version_feature=wire.KRaftVersionFeature(
            min_supported_version=voter.kraft_versions.minimum, max_supported_version=voter.kraft_versions.maximum
        ),
    )


def _from_message(message: Message) -> ControlRecord:
    match message:
        case wire.LeaderChangeMessage():
            return LeaderChange(
                NodeId(message.leader_id),
                tuple(NodeId(voter.voter_id) for voter in message.voters),
                tuple(NodeId(voter.voter_id) for voter in message.granting_voters),
            )
        case wire.KRaftVersionRecord():
            return KRaftVersion(message.kraft_version)
        case wire.VotersRecord():
            return Voters(VoterSet(map(_from_voter, message.voters)))
        case _:
            raise TypeError(f"{type(message).__name__} is no control record of the quorum")


def _from_voter(voter: wire.VotersRecordVoter) -> Voter:
    feature = voter.kraft_version_feature
    return Voter(
        ReplicaKey(NodeId(voter.voter_id), DirectoryId(voter.voter_directory_id)),
        tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
        VersionRange(feature.min_supported_version, feature.max_supported_version),
    )
