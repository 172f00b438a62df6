"""What the benchmarks over Spark leave behind: where nobody has measured yet, as well."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest


@pytest.mark.parametrize("family", ["spark_source", "spark_sink", "spark_stream"])
def test_figures_are_kept_where_no_run_has_kept_any(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = importlib.import_module(f"benchmarks.{family}")
    monkeypatch.setattr(benchmark, "RESULTS", tmp_path / "not" / "there")
    monkeypatch.setattr(benchmark, "measure", lambda _rows, _rounds: {"count": [2.0, 3.0]})
    monkeypatch.setattr(benchmark, "report", lambda _figures: False)
    monkeypatch.setattr("sys.argv", [family, "--rounds", "2"])

    benchmark.main()

    kept = json.loads((tmp_path / "not" / "there" / f"{family}.json").read_text())
    assert kept == {"rows": benchmark.ROWS, "rows_per_second": {"count": [2.0, 3.0]}}
