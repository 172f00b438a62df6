"""The figures in the README: the picture, and the table between two markers. Nothing else of the file is touched."""

from __future__ import annotations

from pathlib import Path

from benchmarks.broker.figures import Results
from benchmarks.broker.picture import picture
from benchmarks.broker.table import markdown_table

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
PICTURE = REPOSITORY / "docs" / "images" / "benchmark.svg"
BEGIN = "<!-- benchmark: written by `python -m benchmarks.broker --publish` -->"
END = "<!-- /benchmark -->"


class PublicationError(Exception):
    """The README has no place for the figures."""


def publish(results: Results, readme: Path = README, drawn: Path = PICTURE) -> None:
    text = readme.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise PublicationError(f"{readme.name} has no line `{BEGIN}` with `{END}` after it")
    drawn.parent.mkdir(parents=True, exist_ok=True)
    drawn.write_text(picture(results), encoding="utf-8")
    readme.write_text(f"{head}{BEGIN}\n{section(results)}\n{END}{tail}", encoding="utf-8")


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
        f"![Tidelog beside Apache Kafka {told.get('kafka', '')}](docs/images/benchmark.svg)\n\n"
        f"{markdown_table(results)}\n\n"
        f"Medians of {told.get('rounds', '?')} rounds ({taken}). A ratio is Tidelog's figure over Apache Kafka's, taken within "
        "each round; [benchmarks/README.md](benchmarks/README.md) says what each row does."
    )
