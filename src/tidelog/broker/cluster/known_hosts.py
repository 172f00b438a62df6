"""Which names of hosts can be resolved, for whoever has to decide by it: a resolver may take seconds, a decision takes none.

hosts.look_up(["db.example"]).then(...)      beside the loop
"db.example" in hosts                        what came of it
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from tidelog.model.pending import Pending
from tidelog.model.slow_work import SlowWork

# More names than this in one request are not looked up, and count as unknown: each may keep a thread for many seconds.
NAMES_MAX = 100
# Those that were looked up last are remembered. A decision comes right after its lookup.
REMEMBERED_MAX = 1_000


def is_resolved(name: str) -> bool:
    """Whether a name stands for an address. Asks the system's resolver: for slow work."""
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


class KnownHosts:
    """One for each node. All methods are called on the loop's thread."""

    def __init__(self, slow_work: SlowWork, resolve: Callable[[str], bool] = is_resolved) -> None:
        self._slow_work = slow_work
        self._resolve = resolve
        self._found: dict[str, None] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def look_up(self, names: Sequence[str]) -> Pending[None]:
        """Completes when it is known of each name whether it can be resolved."""
        done: Pending[None] = Pending()
        asked = names[:NAMES_MAX]

        def found(outcome: list[str] | BaseException) -> None:
            for name in asked:
                self._found.pop(name, None)
            if not isinstance(outcome, BaseException):
                self._found.update(dict.fromkeys(outcome))
            while len(self._found) > REMEMBERED_MAX:
                del self._found[next(iter(self._found))]
            done.complete(None)

        self._slow_work.submit(lambda: [name for name in asked if self._resolve(name)], found)
        return done
