"""Feature levels: what a cluster has agreed to use (KIP-584).

`metadata.version` is the level of the metadata log itself; what each of its levels means is in `metadata_version`. The levels of
the others, what a new cluster starts with, and what asks for what, are those of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from tidelog.controller import metadata_version
from tidelog.controller.metadata_version import NEWEST, OLDEST, MetadataVersion

METADATA_VERSION = metadata_version.FEATURE_NAME
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"


class Feature(Struct, frozen=True):
    """The levels of one feature that this release can work at."""

    lowest: int
    highest: int
    comes_with: Mapping[int, int] = field(default_factory=dict)
    """For levels above 0 the metadata.version from which on a new cluster starts with them."""
    needs: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """What a level asks of other features."""


SUPPORTED: Mapping[str, Feature] = {
    METADATA_VERSION: Feature(OLDEST.level, NEWEST.level),
    KRAFT_VERSION: Feature(0, 1),
    "transaction.version": Feature(0, 2, {1: 24, 2: 24}),
    "group.version": Feature(0, 1, {1: 22}),
    ELIGIBLE_LEADER_REPLICAS_VERSION: Feature(0, 1, {1: 26}, {1: {METADATA_VERSION: 23}}),
    "share.version": Feature(0, 1, {1: 28}),
    "streams.version": Feature(0, 1, {1: 29}),
}


def bootstrap_levels(version: MetadataVersion, chosen: Mapping[str, int] | None = None) -> dict[str, int]:
    """What a newly formatted cluster starts with at a metadata.version; `chosen` are levels that somebody wants otherwise.

    The order is that of Kafka's bootstrap file, and kraft.version, of which the quorum keeps its own record, is not in it.
    """
    levels = {
        name: max((level for level, since in feature.comes_with.items() if since <= version.level), default=0)
        for name, feature in SUPPORTED.items()
    } | dict(chosen or {})
    others = sorted(name for name in levels if name not in {METADATA_VERSION, KRAFT_VERSION} and levels[name] > 0)
    return {METADATA_VERSION: version.level} | {name: levels[name] for name in others}


BOOTSTRAP_LEVELS: Mapping[str, int] = bootstrap_levels(NEWEST)


def dependency_problem(name: str, level: int, levels: Mapping[str, int]) -> str | None:
    """Why a feature cannot be at a level beside those of the others; None if it can."""
    feature = SUPPORTED.get(name)
    for other, needed in ({} if feature is None else feature.needs.get(level, {})).items():
        if levels.get(other, 0) < needed:
            return f"{name} could not be set to {level} because it depends on {other} level {needed}"
    return None


def unsupported_reason(name: str, level: int) -> str | None:
    """Why this release cannot be part of a cluster with this feature level, or None if it can."""
    if level == 0 and name != METADATA_VERSION:
        # Level 0 is how a feature is switched off, also one that this release has never heard of.
        return None
    supported = SUPPORTED.get(name)
    if supported is None:
        return f"the cluster uses feature {name} at level {level}, which this release does not know"
    if not supported.lowest <= level <= supported.highest:
        return f"the cluster uses {name} at level {level}; this release works with {supported.lowest} to {supported.highest}"
    return None
