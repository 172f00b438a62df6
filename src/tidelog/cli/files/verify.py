"""`tidelog verify`: check every file of a data directory against every other, and say on one screen what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tidelog.cli.rendering import Json, json_line, printable
from tidelog.storage.errors import StorageError
from tidelog.storage.os_files import OsFiles
from tidelog.storage.verification.data_directories import NotADataDirectoryError
from tidelog.storage.verification.directory_check import verify
from tidelog.storage.verification.findings import Finding, Report, Severity

EXIT_ERRORS = 1
EXIT_UNREADABLE = 2

# One screen: whoever has more than this to mend begins with the worst, and runs it again.
FINDINGS_SHOWN_MAX = 40


def verify_directory(path: str, *, decodes_records: bool, as_json: bool) -> int:
    """Print the findings, worst first, and a summary. The exit code: 0 only if there is no error among them."""
    try:
        report = verify(OsFiles(), path, decodes_records=decodes_records)
    except (NotADataDirectoryError, StorageError) as error:
        sys.stderr.write(f"tidelog verify: {printable(str(error))}\n")
        return EXIT_UNREADABLE
    order = list(Severity)
    findings = sorted(report.findings, key=lambda finding: order.index(finding.severity))
    lines = [json_line(_as_json(finding)) for finding in findings] if as_json else _screen(findings)
    lines.append(json_line(_summary_as_json(report)) if as_json else _summary_as_text(report))
    sys.stdout.writelines(line + "\n" for line in lines)
    return EXIT_ERRORS if report.count(Severity.ERROR) else 0


def _screen(findings: Sequence[Finding]) -> list[str]:
    """The findings in text, as many as a person can take in, and how many more there are."""
    lines = [_as_text(finding) for finding in findings[:FINDINGS_SHOWN_MAX]]
    left = [finding.severity for finding in findings[FINDINGS_SHOWN_MAX:]]
    if left:
        counts = ", ".join(_counted(left.count(severity), severity.value) for severity in Severity if severity in left)
        lines.append(f"and {counts} more; --json lists all")
    return lines


def _as_text(finding: Finding) -> str:
    where = printable(finding.path) + (f", byte {finding.position}" if finding.position is not None else "")
    return f"{finding.severity.value}: {where}: {printable(finding.sentence)}"


def _as_json(finding: Finding) -> dict[str, Json]:
    return {
        "type": "finding",
        "severity": finding.severity.value,
        "path": finding.path,
        "position": finding.position,
        "sentence": finding.sentence,
    }


def _summary_as_json(report: Report) -> dict[str, Json]:
    return {
        "type": "summary",
        "partitions": report.partitions,
        "segments": report.segments,
        "batches": report.batches,
        "bytes": report.bytes_checked,
        **{f"{severity.value}s": report.count(severity) for severity in Severity},
    }


def _summary_as_text(report: Report) -> str:
    checked = ", ".join(
        (
            _counted(report.partitions, "partition"),
            _counted(report.segments, "segment"),
            _counted(report.batches, "batch", "batches"),
            _counted(report.bytes_checked, "byte"),
        )
    )
    found = ", ".join(_counted(report.count(severity), severity.value) for severity in Severity)
    return f"checked {checked}: {found}"


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
