"""What a check of a data directory found: one sentence for each thing, and how much was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Something is lost, or a reader gets a wrong answer."""
    WARNING = "warning"
    """The next start repairs it, or a person should know."""
    NOTE = "note"
    """Not as after a clean stop, and still right."""


class Finding(NamedTuple):
    """One thing that is not as it should be. `path` is relative to what was to be checked."""

    severity: Severity
    path: str
    position: int | None
    sentence: str


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What the files of the log directory say about a partition. None where they say nothing."""

    was_clean: bool = False
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    cleaner_offset: int | None = None
    is_internal: bool = False
    """Whether it is a topic of Kafka's own: those are compacted, whatever the cleaner's checkpoint says."""
    in_use: bool = False
    """Whether a node uses the directory now."""

    def is_recovered(self, offset: int) -> bool:
        """Whether the next start reads the log at `offset` again, and repairs what belongs to it."""
        return not self.was_clean and (self.recovery_point is None or offset >= self.recovery_point)


@dataclass(slots=True)
class Report:
    """All findings, in the order in which they were made, and what they were made in."""

    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    bytes_checked: int = 0

    def add(self, severity: Severity, path: str, sentence: str, position: int | None = None) -> None:
        self.findings.append(Finding(severity, path, position, sentence))

    def error(self, path: str, sentence: str, position: int | None = None) -> None:
        self.add(Severity.ERROR, path, sentence, position)

    def warning(self, path: str, sentence: str, position: int | None = None) -> None:
        self.add(Severity.WARNING, path, sentence, position)

    def note(self, path: str, sentence: str, position: int | None = None) -> None:
        self.add(Severity.NOTE, path, sentence, position)

    def unless_unclean(self, facts: PartitionFacts, path: str, sentence: str) -> None:
        """An error after a clean stop. After another one the end of the log may have been lost, and recovery sees to it."""
        if facts.was_clean:
            self.error(path, sentence)
        else:
            self.warning(path, f"{sentence}; recovery sees to it")

    def include(self, other: Report, shown: str) -> None:
        """Take over what was found elsewhere, with `shown` before its paths."""
        self.findings += [finding._replace(path=shown + finding.path) for finding in other.findings]
        self.partitions += other.partitions
        self.segments += other.segments
        self.batches += other.batches
        self.bytes_checked += other.bytes_checked

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)
