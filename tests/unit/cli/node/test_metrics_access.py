"""Who may look at the metrics, as the command line says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.pem_files import write_certificate
from tidelog.cli.node.broker_options import BrokerOptions
from tidelog.cli.node.metrics_access import metrics_access
from tidelog.model.config import ConfigError


def asked(**changes: Any) -> BrokerOptions:
    return BrokerOptions(None, metrics_port=0)._replace(**changes)


def test_a_token_is_what_a_file_holds_without_the_end_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret+/=\n")

    access = metrics_access(asked(metrics_token_file=str(tmp_path / "token")))

    assert (access.token, access.tls) == (b"s3cret+/=", None)


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"s\xe9cret", b"hush" * 2000, b"a\0b"])
def test_what_is_no_token_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(ConfigError, match="holds no token") as told:
        metrics_access(asked(metrics_token_file=str(tmp_path / "token")))

    assert "hush" not in str(told.value)
    assert "words" not in str(told.value)


def test_a_certificate_and_its_key_may_be_in_one_file_or_in_two(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())

    assert metrics_access(asked(metrics_cert=str(certificate), metrics_key=str(key))).tls is not None
    assert metrics_access(asked(metrics_cert=str(both))).tls is not None


def test_what_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    other = write_certificate(tmp_path / "other")[1]
    locked = write_certificate(tmp_path / "locked", password=b"hush")
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    cases: list[tuple[dict[str, str | None], str]] = [
        ({"metrics_cert": str(certificate), "metrics_key": str(other)}, "cannot be used for --metrics-port"),
        ({"metrics_cert": str(locked[0]), "metrics_key": str(locked[1])}, "cannot be used for --metrics-port"),
        ({"metrics_cert": str(nothing)}, "cannot be used for --metrics-port"),
        ({"metrics_cert": str(certificate)}, "cannot be used for --metrics-port"),
        ({"metrics_cert": "/no/such.pem"}, "/no/such.pem cannot be read: No such file"),
        ({"metrics_key": str(key)}, "--metrics-key needs --metrics-cert"),
        ({"metrics_token_file": "/no/such"}, "--metrics-token-file /no/such cannot be read: No such file"),
        ({"metrics_cert": str(certificate), "metrics_port": None}, "--metrics-cert is for --metrics-port"),
    ]

    for changes, sentence in cases:
        with pytest.raises(ConfigError, match=sentence) as told:
            metrics_access(asked(**changes))
        assert "\n" not in str(told.value)
