"""What is read of a node's quotas when somebody asks, under the names of Kafka's Produce, Fetch, Request and ControllerMutation.

An account that all users share has no user, one of all client ids no client id. Those of kinds without limits are not shown:
nobody is counted by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from tidelog.broker.quotas.accounts import Account
from tidelog.broker.quotas.client_quotas import ClientQuotas
from tidelog.broker.quotas.node_quotas import NodeQuotas
from tidelog.model.metrics import Kind, Reading, Registry

_LABELS = ("user", "client_id")
_THROTTLED = "How long clients were made to wait, on average of the last minute, in milliseconds."

Read = Callable[[Account, int], float | None]


def register_quotas(registry: Registry, quotas: NodeQuotas) -> None:
    def readings(limits: ClientQuotas, read: Read) -> Iterable[Reading]:
        now_ms = quotas.now_ms()
        if not limits.is_on:
            return
        for name, account in limits.accounts(now_ms):
            value = read(account, now_ms)
            if value is not None:
                yield tuple(name), value

    families: list[tuple[str, ClientQuotas, str, Read]] = [
        ("produce_byte_rate", quotas.produce, "Bytes a second of Produce requests.", Account.per_second),
        ("produce_throttle_time", quotas.produce, _THROTTLED, Account.throttle_time_ms),
        ("fetch_byte_rate", quotas.fetch, "Bytes a second of answers to Fetch.", Account.per_second),
        ("fetch_throttle_time", quotas.fetch, _THROTTLED, Account.throttle_time_ms),
        ("request_request_time", quotas.request, "Percent of the processor's time.", Account.per_second),
        ("request_throttle_time", quotas.request, _THROTTLED, Account.throttle_time_ms),
        (
            "controller_mutation_tokens",
            quotas.mutations,
            "Partitions that may be created or deleted at once; below zero while clients are refused.",
            Account.tokens,
        ),
        (
            "controller_mutation_mutation_rate",
            quotas.mutations,
            "Partitions a second that were created or deleted.",
            Account.mutations_per_second,
        ),
        ("controller_mutation_throttle_time", quotas.mutations, _THROTTLED, Account.throttle_time_ms),
    ]
    for name, limits, help_text, read in families:
        registry.family(Kind.GAUGE, f"kafka_server_{name}", help_text, _LABELS, partial(readings, limits, read))
    registry.gauge(
        "kafka_server_request_exempt_request_time",
        "Percent of the processor's time that no client waits for, while request_percentage is set for any.",
        lambda: quotas.exempt.per_second(quotas.now_ms()),
    )
