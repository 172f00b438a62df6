"""Values of control records: the end of a transaction; of the metadata log's leader, voters and snapshots."""

from tidelog.wire.schema import Array, Int16, Int32, Int64, Message, String, Struct, UInt16, Uuid, since


class EndTxnMarker(Message, versions="0"):
    coordinator_epoch: Int32


class Voter(Struct):
    voter_id: Int32
    voter_directory_id: Uuid = since(1)


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    version: Int16
    leader_id: Int32
    voters: Array[Voter]
    granting_voters: Array[Voter]


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    version: Int16
    last_contained_log_timestamp: Int64


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    version: Int16


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: Int16
    kraft_version: Int16


class Endpoint(Struct):
    name: String
    host: String
    port: UInt16


class KRaftVersionFeature(Struct):
    min_supported_version: Int16
    max_supported_version: Int16


class VotersRecordVoter(Struct):
    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: Array[Endpoint]
    kraft_version_feature: KRaftVersionFeature


class VotersRecord(Message, versions="0", flexible="0+"):
    version: Int16
    voters: Array[VotersRecordVoter]
