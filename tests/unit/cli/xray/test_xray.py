"""What `tidelog xray` makes of a command line, before it asks anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import tidelog


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("orders",), "expected TOPIC:PARTITION@OFFSET"),
        (("orders:x@1",), "expected TOPIC:PARTITION@OFFSET"),
        (("or/ders:0@1",), "expected TOPIC:PARTITION@OFFSET"),
        (("orders:0",), "name an offset"),
        (("orders:0@1", "--produce"), "leave the offset out"),
        (("orders:0@1", "--count", "2"), "it needs --produce"),
        (("orders:0", "--produce", "--count", "2", "--svg"), "draws one record"),
        (("orders:0@1", "--svg", "--json"), "choose one of --json, --svg"),
        (("orders:0@1", "--trace", "node-1=http://x"), "is no address of a node"),
        (("orders:0@1", "--trace", "1=ftp://x"), "is no address of a node"),
        (("orders:0@1", "--trace-token-file", "absent"), "cannot be read"),
    ],
)
def test_a_wrong_question_is_told_in_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    result = tidelog("xray", *arguments, "--bootstrap", "127.0.0.1:1")

    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_holds_no_token_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("not a token, it has blanks")
    result = tidelog("xray", "orders:0@1", "--trace-token-file", path, "--bootstrap", "127.0.0.1:1")

    assert result.exit_code == 2
    assert "blanks" not in result.stderr
