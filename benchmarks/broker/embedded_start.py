"""A process that starts an embedded cluster once, its imports done, and prints how many milliseconds that took."""

from __future__ import annotations

import time

from tidelog.testing import EmbeddedCluster


def main() -> None:
    begun_s = time.perf_counter()
    cluster = EmbeddedCluster().start()
    taken_s = time.perf_counter() - begun_s
    cluster.stop()
    print(f"{taken_s * 1e3:.3f}")


if __name__ == "__main__":
    main()
