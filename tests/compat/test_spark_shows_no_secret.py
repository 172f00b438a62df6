"""Spark's UI, REST API and event log show no secret of a login, however it is given. A Spark of its own for each: 25 s."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sasl_node import PASSWORD, SCRAM_MODULE, USER
from tests.support.secure_node import SASL_SSL, SecureNode

pytestmark = pytest.mark.compat

DEADLINE_S = 300
DESCRIPTION = "what everybody may see"
# Of the password what no form of writing it down changes.
SECRET = "s secret"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with SecureNode(tmp_path_factory.mktemp("node")) as running:
        yield running


def by_password(_: Path) -> dict[str, str]:
    return {"kafka.sasl.username": USER, "kafka.sasl.password": PASSWORD}


def by_jaas(_: Path) -> dict[str, str]:
    return {"kafka.sasl.jaas.config": f'{SCRAM_MODULE} required username="{USER}" password="{PASSWORD}";'}


def by_reference(directory: Path) -> dict[str, str]:
    (directory / "password").write_text(PASSWORD + "\n")
    return {"kafka.sasl.username": USER, "kafka.sasl.password": f"${{directory:{directory}:password}}"}


@pytest.mark.parametrize("given", [by_password, by_jaas, by_reference])
def test_no_page_and_no_event_has_the_password(node: SecureNode, tmp_path: Path, given: object) -> None:
    assert callable(given)
    assert SECRET in PASSWORD
    login = {
        "kafka.bootstrap.servers": node.bootstrap(SASL_SSL),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": str(node.truststore),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        **given(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.compat.shown_by_spark", str(tmp_path)],
        input=json.dumps({"login": login, "words": [SECRET, DESCRIPTION], "description": DESCRIPTION}),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])

    assert found[SECRET] == []
    # It is looked where there is something to see.
    assert "/jobs/" in found[DESCRIPTION]
    assert any(each.startswith("/SQL/execution/") for each in found[DESCRIPTION])
    assert any(each.startswith("event log") for each in found[DESCRIPTION])
