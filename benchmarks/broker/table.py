"""The figures as a table: aligned for a terminal, or as Markdown for docs/speed.md."""

from __future__ import annotations

from benchmarks.broker.figures import OURS, Measured, Results, spread

NOTHING = "–"


def number(value: float | None) -> str:
    """Three digits that matter, and no more zeros than a reader wants."""
    if value is None:
        return NOTHING
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.01 or value == 0 else f"{value:.4f}"


def row(measured: Measured) -> tuple[str, ...]:
    figure, goal = measured.figure, measured.figure.goal
    ratio = measured.ratio
    verdict = {True: "reached", False: "MISSED", None: ""}[measured.reached]
    return (
        f"{figure.what}, {figure.unit}",
        number(measured.median(OURS)),
        number(measured.median(measured.peer)),
        NOTHING if ratio is None else f"{ratio:.2f} ×",
        spread(measured.ratios),
        goal.said(figure.better, figure.unit) if goal else "",
        verdict,
    )


def text_table(results: Results) -> str:
    headings = ("", "Tidelog", results.peer, "ratio", "spread", "goal", "")
    rows = [headings, *(row(each) for each in results.measured)]
    widths = [max(len(line[column]) for line in rows) for column in range(len(headings))]
    lines = []
    for line in rows:
        first, *middle, verdict = line
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(middle, widths[1:], strict=False))]
        lines.append("  ".join([*cells, verdict]).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def markdown_table(results: Results) -> str:
    """Without verdicts: a reader sees them, and a page of figures is not a report of failures."""
    lines = ["| | Tidelog | Apache Kafka | ratio | spread | goal |", "|---|--:|--:|--:|--:|--:|"]
    lines += [f"| {' | '.join(row(each)[:-1])} |" for each in results.measured]
    return "\n".join(lines)
