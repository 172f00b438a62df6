"""Ranges of versions, as Kafka's message schemas write them: `"3-13"`, `"9+"`, `"4"`, `"none"`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

# Versions travel as int16, so that this bound stands for "and all that follow".
VERSION_MAX = 32_767


class VersionRange(NamedTuple):
    """The versions from `lowest` to `highest`, both included. Empty where `highest` is the lesser."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        lowest, _, highest = text.partition("-")
        return cls(int(lowest), int(highest or lowest))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def each(self) -> Iterator[int]:
        """Every version of a bounded range, lowest first."""
        return iter(range(self.lowest, self.highest + 1))

    def __and__(self, other: VersionRange) -> VersionRange:
        return VersionRange(max(self.lowest, other.lowest), min(self.highest, other.highest))

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.highest == VERSION_MAX:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NO_VERSIONS = VersionRange(0, -1)
ALL_VERSIONS = VersionRange(0, VERSION_MAX)
