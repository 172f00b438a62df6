"""How a command ends, whatever happens to its output."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable

from tidelog.cli.interrupts import EXIT_INTERRUPTED, exit_when_interrupted, raise_when_interrupted


def exit_code_of(command: Callable[[], int]) -> int:
    """Run a command that may print a lot. The code to exit with; SystemExit with a sentence where the output is not complete."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that is no UTF-8, or a terminal that is not, must not end in a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    exits_when_interrupted = False
    try:
        exits_when_interrupted = raise_when_interrupted()
        code = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        # It needs no explanation.
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has seen enough: not an error. What is still buffered would fail again at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit("tidelog: the output is not complete: where it is written to, the disk is full")
    finally:
        if exits_when_interrupted:
            exit_when_interrupted()
    return code
