"""URLs of databases: what is a secret stays a reference until a connection is made, and is never parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.spark.outputs.database_url import parse_url
from tidelog.spark.outputs.kind import OutputRefusedError

SETTINGS = frozenset({"sslmode", "sslpassword"})


def test_a_reference_may_hold_what_a_url_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.properties").write_text("db.password = a@b/c:d%41#?\n")
    monkeypatch.setenv("DB_USER", "some user")
    place = "${file:" + str(tmp_path / "secrets.properties") + ":db.password}"

    url = parse_url(
        f"postgresql://${{env:DB_USER}}:{place}@db.example.com:5433/orders%20old?sslmode=require",
        schemes=("postgresql",),
        settings=SETTINGS,
    )

    assert (url.host, url.port, url.database, url.password) == ("db.example.com", 5433, "/orders old", place)
    assert url.secrets() == {"user": "some user", "password": "a@b/c:d%41#?", "sslmode": "require"}
    assert str(url) == "postgresql://db.example.com:5433/orders old"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("postgresql://u:s3cret@host/db", "holds its password"),
        ("postgresql://u@host/db?sslpassword=s3cret", "holds its sslpassword"),
        ("postgresql://u:s3cret@host:port/db", "cannot be read"),
        ("postgresql://u:s3cret@[host/db", "cannot be read"),
        ("u:s3cret@host/db", "has the scheme"),
        ("postgresql://host/db?password=s3cret", "holds its password"),
        ("postgresql://host/db?optoins=x", "no setting optoins"),
    ],
)
def test_a_url_that_makes_no_sense_gets_one_sentence_without_its_secret(text: str, says: str) -> None:
    with pytest.raises(OutputRefusedError, match=says) as raised:
        parse_url(text, schemes=("postgresql",), settings=SETTINGS)
    assert "s3cret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_reference_that_leads_nowhere_gets_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    url = parse_url("postgresql://u:${env:NOT_THERE}@host/db", schemes=("postgresql",), settings=SETTINGS)

    with pytest.raises(
        OutputRefusedError, match="in the database's URL password refers to the variable NOT_THERE, which is"
    ):
        url.secrets()
