"""The figures in docs/speed.md: the picture, and the table between two markers. Nothing else of the file is touched."""

from __future__ import annotations

from pathlib import Path

from benchmarks.broker.figures import Results
from benchmarks.broker.picture import picture
from benchmarks.broker.table import markdown_table

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "speed.md"
PICTURE = REPOSITORY / "docs" / "images" / "benchmark.svg"
BEGIN = "<!-- benchmark: written by `python -m benchmarks.broker --publish` -->"
END = "<!-- /benchmark -->"


class PublicationError(Exception):
    """The page has no place for the figures."""


def publish(results: Results, page: Path = PAGE, drawn: Path = PICTURE) -> None:
    text = page.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise PublicationError(f"{page.name} has no line `{BEGIN}` with `{END}` after it")
    drawn.parent.mkdir(parents=True, exist_ok=True)
    drawn.write_text(picture(results), encoding="utf-8")
    page.write_text(f"{head}{BEGIN}\n{section(results)}\n{END}{tail}", encoding="utf-8")


def section(results: Results) -> str:
    told = results.circumstances
    taken = ", ".join(
        part
        for part in (
            told.get("machine"),
            told.get("python") and f"Python {told['python']}",
            told.get("java"),
            told.get("librdkafka") and f"librdkafka {told['librdkafka']}",
            told.get("date"),
        )
        if part
    )
    return (
        f"![Tidelog beside Apache Kafka {told.get('kafka', '')}](images/benchmark.svg)\n\n"
        f"{markdown_table(results)}\n\n"
        f"Medians of {told.get('rounds', '?')} rounds ({taken}). A ratio is Tidelog's figure over Apache Kafka's, taken within "
        "each round; [benchmarks/README.md](../benchmarks/README.md) says what each row does."
    )
