"""Tidelog: a distributed commit log that speaks Apache Kafka's protocol and keeps Apache Kafka's files.

from tidelog import Producer, Consumer, ShareConsumer, Admin, AsyncProducer, AsyncConsumer, AsyncShareConsumer, AsyncAdmin
"""

# Imports next to nothing, not even `typing`: until `tidelog.cli.main` is reached, Ctrl-C is a traceback.
from tidelog.kernel_choice import choice as _kernel_choice

# Before any other module of the package is imported.
_kernel_choice.install()

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidelog.client.admin import Admin, AsyncAdmin
    from tidelog.client.consumer.async_consumer import AsyncConsumer
    from tidelog.client.consumer.consumer import Consumer
    from tidelog.client.consumer.membership import RebalanceListener
    from tidelog.client.consumer.records import ConsumerRecord, OffsetAndMetadata
    from tidelog.client.consumer.topic_partition import TopicPartition
    from tidelog.client.producer.async_producer import AsyncProducer
    from tidelog.client.producer.prepared_transaction import PreparedTransaction
    from tidelog.client.producer.producer import Producer
    from tidelog.client.share.acknowledgements import AcknowledgeType
    from tidelog.client.share.async_share_consumer import AsyncShareConsumer
    from tidelog.client.share.records import SharedRecord
    from tidelog.client.share.share_consumer import ShareConsumer
    from tidelog.client.tables import read, write

__version__ = "0.1.0"

__all__ = [
    "AcknowledgeType",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "Consumer",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "PreparedTransaction",
    "Producer",
    "RebalanceListener",
    "ShareConsumer",
    "SharedRecord",
    "TopicPartition",
    "__version__",
    "read",
    "write",
]

# A broker imports this package too and must not pay for the clients: each is imported when it is first asked for.
_PUBLIC = {
    "AcknowledgeType": "tidelog.client.share.acknowledgements",
    "Admin": "tidelog.client.admin",
    "AsyncAdmin": "tidelog.client.admin",
    "AsyncConsumer": "tidelog.client.consumer.async_consumer",
    "AsyncProducer": "tidelog.client.producer.async_producer",
    "AsyncShareConsumer": "tidelog.client.share.async_share_consumer",
    "Consumer": "tidelog.client.consumer.consumer",
    "ConsumerRecord": "tidelog.client.consumer.records",
    "OffsetAndMetadata": "tidelog.client.consumer.records",
    "PreparedTransaction": "tidelog.client.producer.prepared_transaction",
    "Producer": "tidelog.client.producer.producer",
    "RebalanceListener": "tidelog.client.consumer.membership",
    "ShareConsumer": "tidelog.client.share.share_consumer",
    "SharedRecord": "tidelog.client.share.records",
    "TopicPartition": "tidelog.client.consumer.topic_partition",
    "read": "tidelog.client.tables",
    "write": "tidelog.client.tables",
}


def __getattr__(name: str) -> object:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - as above

    return getattr(importlib.import_module(module), name)
