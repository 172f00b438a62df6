"""Ctrl-C: `KeyboardInterrupt` while a command runs, and the end of the process at once before and after that.

Outside of a command there is nothing to end in order, and an exception amid an import or at the interpreter's end is a traceback.
"""

import os
import signal
import warnings

EXIT_INTERRUPTED = 130
"""What shells give for a command that Ctrl-C has ended."""


def exit_when_interrupted() -> None:
    """Ctrl-C ends the process at once. Where it is ignored, as in the background of a script, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_when_interrupted() -> bool:
    """Ctrl-C is `KeyboardInterrupt` again. Whether it was `exit_when_interrupted` before."""
    is_exit = signal.getsignal(signal.SIGINT) is _exit
    if is_exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return is_exit


def forget_what_was_interrupted() -> None:
    """In the `except` that takes Ctrl-C for an end: a call that it came before is not waited for any more, which is no mistake.
    Python would say so on standard error when the exception goes, and the call with it."""
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)


def _exit(_number: int, _frame: object) -> None:
    os._exit(EXIT_INTERRUPTED)
