"""Runs a Python program whose instructions are counted while somebody outside says so.

    valgrind --tool=callgrind --instr-atstart=no python counted_process.py LIBRARY PROGRAM [ARGUMENT]...

Lines on standard input: `begin`, and `end NAME`, each answered by a line on standard output once it is done. A thread waits for
them, which costs the program nothing. It imports nothing of ours, so that any checkout can run under it.
"""

from __future__ import annotations

import ctypes
import runpy
import sys
import threading


def obey(library: ctypes.CDLL) -> None:
    for line in sys.stdin:
        command, _, name = line.strip().partition(" ")
        if command == "begin":
            library.counting_begins()
        else:
            library.counting_ends(name.encode())
        sys.stdout.write("done\n")
        sys.stdout.flush()


def main() -> None:
    _, path, program, *arguments = sys.argv
    threading.Thread(target=obey, args=(ctypes.CDLL(path),), daemon=True).start()
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


main()
