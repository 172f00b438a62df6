"""The feature levels that a new cluster is to begin with, as `tidelog format` is told them: --release-version and --feature.

The words and the rules are those of `kafka-storage format`: a release stands for its metadata.version and for what a new cluster
of that release starts with; single features may be had otherwise, as far as they go together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.controller.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    bootstrap_levels,
    dependency_problem,
)
from tidelog.controller.metadata_version import METADATA_VERSIONS, NEWEST, OLDEST, MetadataVersion, of_release
from tidelog.model.config import ConfigError


def first_levels(release: str | None, features: Sequence[str], *, is_static_quorum: bool) -> Mapping[str, int]:
    """The levels to write. ConfigError for what is unknown, out of range, or does not go together."""
    chosen = _chosen(features)
    version = _metadata_version(release, chosen)
    kraft_version = chosen.get(KRAFT_VERSION)
    if kraft_version is not None and kraft_version != (0 if is_static_quorum else 1):
        raise ConfigError(
            "kraft.version is 0 with controller.quorum.voters and 1 without: leave it out, or change the configuration"
        )
    levels = bootstrap_levels(version, chosen)
    for name, level in levels.items():
        problem = dependency_problem(name, level, levels)
        if problem is not None:
            raise ConfigError(problem)
    return levels


def _chosen(features: Sequence[str]) -> dict[str, int]:
    chosen: dict[str, int] = {}
    for text in features:
        name, equals, number = (part.strip() for part in text.partition("="))
        if not equals or not number.isascii() or not number.isdecimal():
            raise ConfigError(f"--feature is a name and a level, for example group.version=1, not {text!r}")
        supported = SUPPORTED.get(name)
        if supported is None:
            raise ConfigError(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(SUPPORTED))}")
        if name in chosen:
            raise ConfigError(f"--feature names {name} twice")
        chosen[name] = int(number)
        if not supported.lowest <= chosen[name] <= supported.highest:
            raise ConfigError(f"{name} has the levels {supported.lowest} to {supported.highest}, not {number}")
    return chosen


def _metadata_version(release: str | None, chosen: Mapping[str, int]) -> MetadataVersion:
    if release is None:
        return METADATA_VERSIONS[chosen.get(METADATA_VERSION, NEWEST.level)]
    if METADATA_VERSION in chosen:
        raise ConfigError(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
    version = of_release(release)
    if version is None:
        raise ConfigError(
            f"{release!r} is no release with a metadata.version that is served: those are {OLDEST.name} to {NEWEST.name}"
        )
    return version
