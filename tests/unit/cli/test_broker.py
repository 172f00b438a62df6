"""What `tidelog broker` says to a mistake, before there is a node."""

from __future__ import annotations

import pytest

from tests.support.command_line import tidelog


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "log.retenton.ms=1"], "Unknown configuration log.retenton.ms; did you mean log.retention.ms?"),
        (["--set", "node.id=first"], "Invalid value first for configuration node.id: not a number of type INT"),
        (
            ["--set", "ssl.keystore.location=/k"],
            "ssl.keystore.location cannot be set: TLS is not supported yet; remove it",
        ),
        (["--set", "listeners=PLAINTEXT://:nine"], "Invalid value PLAINTEXT://:nine for configuration listeners: "),
        (
            ["--config", "/nowhere/server.properties"],
            "Cannot read /nowhere/server.properties: No such file or directory",
        ),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str) -> None:
    broker = tidelog("broker", *arguments)

    assert broker.exit_code == 2
    assert broker.stderr.startswith(f"tidelog broker: {sentence}")
    assert broker.stderr.count("\n") == 1
