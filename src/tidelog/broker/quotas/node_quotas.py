# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The quotas of one node: which kinds of them are set, and who has taken how much here.

It follows the image of the cluster. While nothing is set, `is_on` is all that a request looks at. Limits are of each node, not of
the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from tidelog.broker.quotas.client_quotas import DEFAULT, ClientQuotas, LimitOf, Name
from tidelog.model import quota_config as keys
from tidelog.model.sampled_rate import SampledRate

if TYPE_CHECKING:
    from tidelog.controller.image import QuotaEntity
    from tidelog.model.clock import Clock
    from tidelog.model.config import ConfigValues

_NS_PER_MS = 1_000_000

# Kafka's windows for numbers that are only shown.
_SHOWN_WINDOWS = 2
_SHOWN_WINDOW_MS = 30_000


class QuotaKind(Enum):
    """What is limited, by the name of its limit."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


class NodeQuotas:
    """One for each node, broker or not."""

    __slots__ = (
        "_clock",
        "_followed",
        "exempt",
        "fetch",
        "is_on",
        "mutations",
        "produce",
        "request",
        "request_throttle_ms_max",
    )

    def __init__(self, config: ConfigValues, clock: Clock) -> None:
        windows, window_ms = config[keys.QUOTA_WINDOW_NUM], config[keys.QUOTA_WINDOW_SIZE_SECONDS] * 1000
        self._clock = clock
        self._followed: Mapping[QuotaEntity, Mapping[str, float]] | None = None
        self.produce = ClientQuotas(windows, window_ms)
        self.fetch = ClientQuotas(windows, window_ms)
        self.request = ClientQuotas(windows, window_ms)
        self.mutations = ClientQuotas(
            config[keys.CONTROLLER_QUOTA_WINDOW_NUM], config[keys.CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS] * 1000
        )
        # Nobody is kept waiting for longer than a window at a time for what requests have taken of the processor.
        self.request_throttle_ms_max = window_ms
        self.exempt = SampledRate(_SHOWN_WINDOWS, _SHOWN_WINDOW_MS)
        """The processor's time that no client pays for, in percent."""
        self.is_on = False
        """Whether there is any limit of any kind."""

    @property
    def kinds(self) -> dict[QuotaKind, ClientQuotas]:
        return {
            QuotaKind.PRODUCE: self.produce,
            QuotaKind.FETCH: self.fetch,
            QuotaKind.REQUEST: self.request,
            QuotaKind.CONTROLLER_MUTATION: self.mutations,
        }

    def generation(self) -> int:
        """Another number whenever an account that was given out may not be the right one any more."""
        return self.produce.generation + self.fetch.generation + self.request.generation + self.mutations.generation

    def now_ms(self) -> int:
        return self._clock.monotonic_ns() // _NS_PER_MS

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Go by what an image of the cluster says. Cheap where nothing has changed."""
        if quotas is self._followed:
            return
        self._followed = quotas
        for kind, limits in self.kinds.items():
            set_now = limits_of(quotas, kind)
            if set_now or limits.is_on:
                limits.set_limits(set_now)
        self.is_on = any(limits.is_on for limits in self.kinds.values())


def limits_of(quotas: Mapping[QuotaEntity, Mapping[str, float]], kind: QuotaKind) -> dict[LimitOf, float]:
    """The limits of one kind. Entities that Kafka knows nothing of, and limits of addresses, are none of these."""
    limits: dict[LimitOf, float] = {}
    for entity, values in quotas.items():
        parts: dict[str, Name] = {of: DEFAULT if name is None else name for of, name in entity.parts}
        value = values.get(kind.value)
        if value is not None and parts.keys() <= {"user", "client-id"}:
            limits[LimitOf(parts.get("user"), parts.get("client-id"))] = value
    return limits


def connection_rates_of(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> dict[str | None, int]:
    """How many connections a second each address may make. None: any other."""
    rates: dict[str | None, int] = {}
    for entity, values in quotas.items():
        rate = values.get("connection_creation_rate")
        if rate is not None and len(entity.parts) == 1 and entity.parts[0][0] == "ip":
            rates[entity.parts[0][1]] = int(rate)
    return rates
