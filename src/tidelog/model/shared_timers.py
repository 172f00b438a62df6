"""Many time-outs behind one timer.

Nearly every time-out is cancelled: what was waited for came before. A timer of the loop costs more to start and to stop than the
whole rest of such a wait, so these are kept in a heap here and the loop is asked for one timer, the next that is due. A cancelled
one stays in the heap until its time or until there are too many of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel_choice import load

if TYPE_CHECKING:
    from tidelog.model.kernels.timer_kernel import CANCELLED_MAX, SharedTimer, SharedTimers
else:
    _kernel = load("tidelog.model.kernels", "timer_kernel")
    CANCELLED_MAX, SharedTimer, SharedTimers = _kernel.CANCELLED_MAX, _kernel.SharedTimer, _kernel.SharedTimers

__all__ = ["CANCELLED_MAX", "SharedTimer", "SharedTimers"]
