from __future__ import annotations

import pytest

from tidelog.net.address import java_host


@pytest.mark.parametrize(
    ("host", "printed"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::10", "2001:db8:0:0:0:0:0:10"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("node-1", "node-1"),
        ("?", "?"),
    ],
)
def test_a_host_is_printed_as_java_prints_it(host: str, printed: str) -> None:
    assert java_host(host) == printed
