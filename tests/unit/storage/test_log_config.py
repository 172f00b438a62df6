from __future__ import annotations

import pytest

from tidelog.model.config import ConfigError
from tidelog.model.topic_config import TOPIC_KEYS
from tidelog.storage.log_config import LogConfig


def test_the_internal_size_of_segments_goes_before_the_other() -> None:
    values = TOPIC_KEYS.parse({"segment.bytes": "1048576", "internal.segment.bytes": "100"})

    assert LogConfig.from_values(values).segment_bytes == 100


def test_without_it_segments_have_the_size_that_everybody_knows() -> None:
    assert LogConfig.from_values(TOPIC_KEYS.parse({"segment.bytes": "1048576"})).segment_bytes == 1048576


def test_a_segment_holds_at_least_a_byte() -> None:
    with pytest.raises(ConfigError, match=r"internal\.segment\.bytes: Value must be at least 1"):
        TOPIC_KEYS.parse({"internal.segment.bytes": "0"})
