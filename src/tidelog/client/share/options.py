"""The options of a share consumer. Names, defaults and meanings are Kafka's, in Python's spelling."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.client.consumer.options import ReadingOptions
from tidelog.client.errors import ConfigError
from tidelog.client.option_kinds import choice, text

ACQUIRE_MODES = {"batch_optimized": 0, "record_limit": 1}
"""As requests have them (KIP-1206)."""


@dataclass(frozen=True, kw_only=True)
class ShareOptions(ReadingOptions):
    """What `ShareConsumer` and `AsyncShareConsumer` take as keywords."""

    group_id: str = text("", doc="The share group whose members are given the records; it has to be named.")
    share_acknowledgement_mode: str = choice(
        "implicit",
        ("implicit", "explicit"),
        doc="Whether a poll accepts all that the one before returned, or every record is acknowledged by the application.",
    )
    share_acquire_mode: str = choice(
        "batch_optimized",
        tuple(ACQUIRE_MODES),
        doc="Whether whole batches are acquired, even beyond max_poll_records, or no record beyond them.",
    )

    @property
    def is_explicit(self) -> bool:
        return self.share_acknowledgement_mode == "explicit"

    @property
    def limits_records(self) -> bool:
        return self.share_acquire_mode == "record_limit"

    def check_together(self) -> None:
        if not self.group_id:
            raise ConfigError("group_id is missing: a share consumer is a member of a share group")
