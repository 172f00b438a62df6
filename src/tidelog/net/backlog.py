"""Keeps connections that send many requests at once from holding up the others: a budget for each round of the event loop.

A round is one look at all sockets. Whoever has sent a single request is answered in it, whatever else goes on. What several
requests of one connection take is counted, in time and in requests, and so are large answers; once the round's budget is spent,
connections with more than one request are put off: what has arrived is put aside, nothing more is read from them (the peer's
sends block in the end), and they join one queue. After the sockets have been looked at, the queue gets a budget of its own:

    sockets      single requests, and several while the budget lasts        one write for each connection at its end
    queue        a slice of the first connection, of the second, ...        one write for each connection at its end
    sockets      ...

A slice is a few requests, or a piece of a large answer; who has more goes to the end of the queue. A connection reads again when
everything that was put aside has been taken. One that cannot take more answers (`ConnectionLimits`) is not in the queue: it waits
for its peer to read, and then comes through here.

The budget is never asked between `frame` and `frames_done` of the same read but for cutting it: what was taken before the cut is
finished with it, while its bytes are still there. Requests of one connection stay in order, and so do their answers.

What was put aside on a connection that is reset meanwhile, or to which a write fails, is dropped. After an orderly close it is
all handled: the end is only read behind it.

Connections that never wait (`is_exempt`): those to other nodes, those of a controller's listener, those of followers that fetch.
Time is the caller's clock. In a simulation it stands still during a round, so the number of requests alone decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel_choice import load

if TYPE_CHECKING:
    from tidelog.net.kernels.stream_kernel import Backlog
else:
    Backlog = load("tidelog.net.kernels", "stream_kernel").Backlog

__all__ = ["Backlog"]
