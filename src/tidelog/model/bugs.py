"""Bugs crash: what becomes of an exception that nobody expected.

    where it is raised                                                      what stops
    a client's request: decoding, deciding, whatever changes nothing        that connection, or UNKNOWN_SERVER_ERROR
    making or sending a client's answer                                     that connection
    storage, replication, a coordinator, the metadata: `BugError`           the node
    what a node does by itself: timers, slow work, answers of other nodes   the node
    housekeeping, time-outs of requests: `Housekeeping`                     nothing: it is counted, and done again

To go on with something that is half done would risk what has been acknowledged; a node that stops is recovered by its next
start, like any that died. It says why: `tidelog.broker.node.crash` has the other half, which all of it ends in.

`BugError` is no `Exception`, so that it passes those who end one connection for one request that failed. Whatever may run on a
client's stack, and changes what others rely on, raises it:

    except StorageError as error: ...
    except Exception as error:
        raise BugError(f"the append to {log} broke off") from error
"""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)


class BugError(BaseException):
    """Something that must not happen has happened, and its traces are left. The node stops."""


class Housekeeping:
    """Failures of work that nothing depends on at once, and that comes again at its time: by what it is, how often."""

    def __init__(self) -> None:
        self.failures: dict[str, int] = {}

    def failed(self, work: str, error: Exception) -> None:
        """Count it. The first of each kind is logged with its traceback, the others in a line."""
        count = self.failures[work] = self.failures.get(work, 0) + 1
        logger.error(
            "%s failed for the %d. time, and will be tried again: %r",
            work,
            count,
            error,
            exc_info=error if count == 1 else None,
        )
