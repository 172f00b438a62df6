"""Which replicas of a topic are throttled: the value of `leader.` and `follower.replication.throttled.replicas`."""

from __future__ import annotations

from typing import Self

import msgspec

_ALL = "*"


class ThrottledReplicas(msgspec.Struct, frozen=True):
    """Some replicas, each a partition and a broker; or all."""

    replicas: frozenset[tuple[int, int]] = frozenset()
    is_all: bool = False

    @classmethod
    def parse(cls, listed: tuple[str, ...]) -> Self:
        """Of texts like `0:101`, which the key has checked, or of an asterisk."""
        texts = [text for text in listed if text]
        if texts == [_ALL]:
            return cls(is_all=True)
        pairs = (text.split(":") for text in texts)
        return cls(frozenset((int(partition), int(broker)) for partition, broker in pairs))

    def __contains__(self, replica: tuple[int, int]) -> bool:
        return self.is_all or replica in self.replicas


NONE_THROTTLED = ThrottledReplicas()
