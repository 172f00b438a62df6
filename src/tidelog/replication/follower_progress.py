"""How far one follower is, as its leader knows from the follower's fetches.

A fetch from offset n says that the follower has everything before n. A follower counts as caught up at the moment of a fetch that
reaches the leader's log end; and, since a leader that is written to all the time has a moving end, at the moment of its
previous fetch once it reaches the end that the leader had then.

A follower that has everything rests: its fetches need not name the partition until something happens to it, and each of them says
once more that it is caught up. The time of the last one is in the `FetchClock` of its session, so that nobody has to go through
all partitions for a fetch that names none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel_choice import load

if TYPE_CHECKING:
    from tidelog.replication.kernels.partition_kernel import FetchClock, FollowerProgress
else:
    _kernel = load("tidelog.replication.kernels", "partition_kernel")
    FetchClock, FollowerProgress = _kernel.FetchClock, _kernel.FollowerProgress

__all__ = ["FetchClock", "FollowerProgress"]
