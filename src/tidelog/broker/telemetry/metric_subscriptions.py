"""Which clients are asked for which metrics: the subscriptions that are configured (KIP-714), as far as they are for a client.

A subscription is for the clients that match all of its patterns, each against one thing that is known of a client. A client that
several are for is asked for all of what they name, as often as the most frequent of them says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.broker.config.config_resources import ConfigResourceType
from tidelog.controller.image import ConfigResource
from tidelog.model.client_metrics_config import CLIENT_METRICS_KEYS, INTERVAL_MS, MATCH, METRICS
from tidelog.model.config import ConfigError

ALL_METRICS = "*"


class MetricSubscription(NamedTuple):
    """One resource of the type CLIENT_METRICS."""

    metrics: frozenset[str]
    interval_ms: int
    patterns: Mapping[str, re.Pattern[str]]

    def is_for(self, client: Mapping[str, str | None]) -> bool:
        for selector, pattern in self.patterns.items():
            known = client.get(selector)
            if known is None or pattern.fullmatch(known) is None:
                return False
        return True


class WantedMetrics(NamedTuple):
    """What one client is asked for."""

    metrics: tuple[str, ...]
    interval_ms: int


class MetricSubscriptions:
    """All of the cluster's."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with each change."""
        self._all: dict[str, MetricSubscription] = {}
        self._seen: Mapping[ConfigResource, Mapping[str, str]] = {}

    def follow(self, configs: Mapping[ConfigResource, Mapping[str, str]]) -> None:
        """These are the configurations now. Cheap where they are the ones that were seen last."""
        if configs is self._seen:
            return
        self._seen = configs
        now = {
            resource.name: _subscription(own)
            for resource, own in configs.items()
            if resource.type == ConfigResourceType.CLIENT_METRICS and own
        }
        there = {name: each for name, each in now.items() if each is not None}
        if there != self._all:
            self._all = there
            self.version += 1

    def wanted_of(self, client: Mapping[str, str | None]) -> WantedMetrics:
        """What a client is asked for, of which these things are known: nothing where no subscription is for it."""
        matching = [each for each in self._all.values() if each.is_for(client)]
        metrics = frozenset[str]().union(*(each.metrics for each in matching))
        return WantedMetrics(
            (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics)),
            min([INTERVAL_MS.default, *(each.interval_ms for each in matching)]),
        )


def _subscription(own: Mapping[str, str]) -> MetricSubscription | None:
    """None for what another version of the cluster's software has let in and this one cannot read."""
    try:
        values = CLIENT_METRICS_KEYS.parse(own)
    except ConfigError:
        return None
    metrics: tuple[str, ...] = values[METRICS]
    matches: tuple[str, ...] = values[MATCH]
    patterns = [each.partition("=") for each in matches]
    return MetricSubscription(
        frozenset(metrics),
        values[INTERVAL_MS],
        {selector.strip(): re.compile(expression.strip()) for selector, _, expression in patterns},
    )
