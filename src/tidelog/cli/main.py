"""`tidelog`: the entry point, and the errors that people see.

A command that fails says why in one sentence on stderr and exits with a code that is not 0: 1 when the answer is no (a damaged
file, a failed check), 2 when the question was wrong. A traceback is a bug.

Imports next to nothing: Ctrl-C is taken care of first, and what a command needs is imported once it is known.
"""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidelog.cli.node.broker_options import BrokerOptions
    from tidelog.cli.node.up_options import UpOptions


def main() -> None:
    try:
        from tidelog.cli.interrupts import exit_when_interrupted  # noqa: PLC0415

        exit_when_interrupted()
    except KeyboardInterrupt:
        os._exit(130)
    _open_missing_streams()
    from tidelog.cli.node.broker_options import ordinary_broker_options  # noqa: PLC0415
    from tidelog.cli.node.up_options import ordinary_up_options  # noqa: PLC0415

    arguments = sys.argv[1:]
    try:
        broker_options = ordinary_broker_options(arguments)
        if broker_options is not None:
            sys.exit(start_broker(broker_options))
        up_options = ordinary_up_options(arguments)
        if up_options is not None:
            sys.exit(start_up(up_options))
        from tidelog.cli.commands import command_line  # noqa: PLC0415

        command_line(arguments[0] if arguments else None)()
    except ImportError as error:
        from tidelog.kernel_choice import KernelUnavailableError  # noqa: PLC0415

        if isinstance(error, KernelUnavailableError):
            sys.exit(f"tidelog: {error}")
        raise


def start_broker(options: "BrokerOptions") -> int:
    """Run a node until it is told to stop. The exit code."""
    # No garbage collection during the start: nearly all that is allocated stays, and collecting takes a tenth of the time. The
    # node turns it on again once it serves.
    gc.disable()
    try:
        from tidelog.cli.exit_code import exit_code_of  # noqa: PLC0415
        from tidelog.cli.node.broker import run_broker  # noqa: PLC0415

        return exit_code_of(lambda: run_broker(options))
    except ImportError:
        if options.is_led_by_stdin and not _is_told_config():
            return 0
        raise
    finally:
        gc.enable()


def start_up(options: "UpOptions") -> int:
    """Run a cluster until it is told to stop. The exit code."""
    # First of all: the nodes import what they need while this process imports and prepares.
    from tidelog.cli.node.node_process import start_ahead  # noqa: PLC0415

    ahead = start_ahead(options)
    from tidelog.cli.exit_code import exit_code_of  # noqa: PLC0415
    from tidelog.cli.node.up import run_up  # noqa: PLC0415

    return exit_code_of(lambda: run_up(options, ahead))


def _is_told_config() -> bool:
    """Whether the parent has sent a configuration. If it has not, it has met the same fault and reported it."""
    from tidelog.cli.node.node_process import config_from_stdin  # noqa: PLC0415

    return config_from_stdin() is not None


def _open_missing_streams() -> None:
    """Open /dev/null for each standard stream that is closed, so that no later file or socket gets its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for as long as the process
