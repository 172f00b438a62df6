"""The ordered output of one connection: bytes, and regions of files that leave by `sendfile`.

    queue.push([header_bytes, region, more_bytes])      # one frame; its size goes in front
    is_empty = queue.flush()                            # sends until nothing is left or the channel would block

Small things are joined into one send. The channel is told when more follows, so that a header and the first bytes of the file
behind it share a packet. Below `SENDFILE_BYTES_MIN`, and on a channel that cannot send
files, a region is read when its turn comes, a piece at a time: what waits in the queue holds no copy of it.

No socket, no loop: those are behind `Channel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel_choice import load
from tidelog.net.parts import SENDFILE_BYTES_MIN, WOULD_BLOCK, Bytes, Channel, Part, Region, RegionFile

if TYPE_CHECKING:
    from tidelog.net.kernels.stream_kernel import OutputQueue
else:
    OutputQueue = load("tidelog.net.kernels", "stream_kernel").OutputQueue

__all__ = ["SENDFILE_BYTES_MIN", "WOULD_BLOCK", "Bytes", "Channel", "OutputQueue", "Part", "Region", "RegionFile"]
