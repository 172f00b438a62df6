"""One broker, as a member of a share group deals with it: its session, and what is to be said to it. One request at a time.

Acknowledgements of one partition are one thing: the broker takes all of them or none. Those that ride on a ShareFetch are said
once; those of a ShareAcknowledge are said again, as long as the error may pass and their time is not over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidelog.client.errors import ClientError
from tidelog.client.share.acknowledgements import Acknowledgements
from tidelog.client.share.places import Place
from tidelog.client.share.share_session import ShareSession


@dataclass(eq=False, slots=True)
class Saying:
    """What is said of one partition, until its leader has heard it or cannot any more."""

    place: Place
    said: Acknowledgements
    told: Callable[[Saying, ClientError | None], None]
    deadline_s: float
    may_ride: bool = False
    """Whether it waits for the next fetch, to be said with it."""
    failures: int = 0


@dataclass(eq=False, slots=True)
class ShareBroker:
    """What waits for a broker, and what is under way."""

    node_id: int
    session: ShareSession = field(default_factory=ShareSession)
    waiting: deque[Saying] = field(default_factory=deque)
    is_busy: bool = False
    retry_at_s: float = 0.0
    failures: int = 0
    is_closing: bool = False

    @property
    def has_to_say(self) -> bool:
        return bool(self.waiting)

    def take(self, *, for_fetch: bool) -> dict[Place, Saying]:
        """What is said with the next request: of each partition one thing, the first that waits."""
        taken: dict[Place, Saying] = {}
        left: deque[Saying] = deque()
        for saying in self.waiting:
            if saying.place in taken or (for_fetch and not saying.may_ride):
                left.append(saying)
            else:
                taken[saying.place] = saying
        self.waiting = left
        return taken

    def put_back(self, sayings: Iterable[Saying]) -> None:
        """To be said again, before all else."""
        self.waiting.extendleft(sayings)
