"""What a test of a pipeline is told. The text is one sentence for a person, and rows below it where there are some.

PipelineTestError       a test that asks for what cannot be
RowsDifferError         an AssertionError: rows are not as expected
"""

from __future__ import annotations


class PipelineTestError(Exception):
    """A test is written in a way that cannot be done."""


class RowsDifferError(AssertionError):
    """What a sink has is not what was expected of it."""
