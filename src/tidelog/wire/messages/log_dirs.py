"""AlterReplicaLogDirs (34), DescribeLogDirs (35), AssignReplicasToDirs (73): a broker's disks and what they hold.

DescribeLogDirs: v3 an error for the whole · v4 size and free space (KIP-827) · v5 cordoned directories
AssignReplicasToDirs: a broker tells the controller where its replicas are (KIP-858)
"""

from tidelog.wire.schema import Array, Bool, Int16, Int32, Int64, Request, Response, String, Struct, Uuid, since


class AlterReplicaLogDirTopic(Struct):
    name: String
    partitions: Array[Int32]


class AlterReplicaLogDir(Struct):
    path: String
    topics: Array[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Request, api_key=34, versions="1-2", flexible="2+", listeners="broker"):
    dirs: Array[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String
    partitions: Array[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Response, api_key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: Int32
    results: Array[AlterReplicaLogDirTopicResult]


class DescribableLogDirTopic(Struct):
    topic: String
    partitions: Array[Int32]


class DescribeLogDirsRequest(Request, api_key=35, versions="1-5", flexible="2+", listeners="broker"):
    topics: Array[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct):
    name: String
    partitions: Array[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: Int16
    log_dir: String
    topics: Array[DescribeLogDirsTopic]
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: Bool = since(5, default=False, ignorable=True)


class DescribeLogDirsResponse(Response, api_key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: Int32
    error_code: Int16 = since(3, ignorable=True)
    results: Array[DescribeLogDirsResult]


class PartitionData(Struct):
    partition_index: Int32


class TopicData(Struct):
    topic_id: Uuid
    partitions: Array[PartitionData]


class DirectoryData(Struct):
    id: Uuid
    topics: Array[TopicData]


class AssignReplicasToDirsRequest(Request, api_key=73, versions="0", flexible="0+", listeners="controller"):
    broker_id: Int32
    broker_epoch: Int64 = -1
    directories: Array[DirectoryData]


class AssignReplicasToDirsPartitionData(Struct):
    partition_index: Int32
    error_code: Int16


class AssignReplicasToDirsTopicData(Struct):
    topic_id: Uuid
    partitions: Array[AssignReplicasToDirsPartitionData]


class AssignReplicasToDirsDirectoryData(Struct):
    id: Uuid
    topics: Array[AssignReplicasToDirsTopicData]


class AssignReplicasToDirsResponse(Response, api_key=73, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    directories: Array[AssignReplicasToDirsDirectoryData]
