"""Settings that hold for every test."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every machine: a failure in CI is a failure at the desk. `make soak` looks further, at random.
settings.register_profile(
    "default", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "soak",
    deadline=None,
    # A profile begins as the one that is named "default", which is the one above by now.
    derandomize=False,
    max_examples=int(os.environ.get("SOAK_EXAMPLES", "2000")),
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("default")

# pytest-asyncio is here to be tested with, and warns where it is not configured: runs of pytest that tests start are without it.
os.environ["PYTEST_ADDOPTS"] = "-p no:asyncio"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what tests recorded under the name "summary": figures that a reader of the run wants to see."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, text in report.user_properties:
            if name == "summary" and report.when == "call":
                terminalreporter.write_line(str(text))
