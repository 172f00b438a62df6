from __future__ import annotations

import logging

import pytest

from tidelog.broker.config import loggers


@pytest.mark.parametrize(
    ("level", "name"),
    [(1, "TRACE"), (5, "TRACE"), (10, "DEBUG"), (20, "INFO"), (25, "INFO"), (30, "WARN"), (40, "ERROR"), (60, "FATAL")],
)
def test_pythons_levels_have_kafkas_names(level: int, name: str) -> None:
    logging.getLogger("tests.levels").setLevel(level)

    assert loggers.logger_levels()["tests.levels"] == name


def test_a_logger_without_a_level_has_its_ancestors() -> None:
    logging.getLogger("tests.family").setLevel(logging.ERROR)
    logging.getLogger("tests.family.child")

    assert loggers.logger_levels()["tests.family.child"] == "ERROR"


def test_a_level_can_be_set_and_left_to_the_ancestors_again() -> None:
    logging.getLogger("tests.parent").setLevel(logging.ERROR)
    child = logging.getLogger("tests.parent.child")

    loggers.set_level("tests.parent.child", "TRACE")
    assert child.isEnabledFor(5)
    assert loggers.logger_levels()["tests.parent.child"] == "TRACE"

    loggers.unset_level("tests.parent.child")
    assert loggers.logger_levels()["tests.parent.child"] == "ERROR"


def test_the_root_is_a_logger_and_a_mere_prefix_is_not() -> None:
    logging.getLogger("tests.prefix_of.something")

    assert loggers.logger_exists(loggers.ROOT_LOGGER)
    assert loggers.logger_exists("tests.prefix_of.something")
    assert not loggers.logger_exists("tests.prefix_of")
    assert "tests.prefix_of" not in loggers.logger_levels()
