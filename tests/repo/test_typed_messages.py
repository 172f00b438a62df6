"""What lies in `tidelog.wire.typed` is what its declarations give."""

from __future__ import annotations

import pytest

from tidelog.wire import typed
from tools.typed_messages import DIRECTORY, all_files

WRITTEN = all_files()


def test_there_are_three_files_for_each_family() -> None:
    assert len(WRITTEN) == 3 * len(typed.FAMILIES)


@pytest.mark.parametrize("file_name", WRITTEN)
def test_a_file_is_what_would_be_written(file_name: str) -> None:
    assert (DIRECTORY / file_name).read_text() == WRITTEN[file_name], "run `python tools/typed_messages.py write`"
