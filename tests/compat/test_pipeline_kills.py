"""`survives_kills` of windows with their state, and of dead letters: a minute of drivers that die."""

from __future__ import annotations

import pytest

from tests.spark.test_pipeline_kills import PLANTED, Make, orders

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]


def test_windows_their_state_and_dead_letters_survive_kills(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(PLANTED / "right.py", only=["sums"])
    pipeline.given("orders", [*orders(1, 1, 2), "no order"])
    pipeline.run()
    pipeline.advance_time("1 hour")

    report = pipeline.survives_kills()

    batches = {kill.query: kill.batch_id for kill in report.kills}
    assert batches.keys() == {"sums"}
    # Windows end in a batch of their own, behind that of the records and of the dead letter.
    assert batches["sums"] > 0
    assert pipeline.result() == [], "the test's own world is as it was"
