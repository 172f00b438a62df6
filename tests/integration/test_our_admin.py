"""Our admin against a node of ours: every method, and what makes a client a good one."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Iterator

import pytest

import tidelog
from tests.support.admin_scenarios import SCENARIOS
from tidelog import Admin, AsyncAdmin
from tidelog.client.admin import NewTopic, value_of
from tidelog.client.errors import ClosedError, ConfigError, NotReachedError, TimedOutError
from tidelog.testing import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_admin(admin: Admin, cluster: EmbeddedCluster, name: str) -> None:
    SCENARIOS[name](admin, cluster.bootstrap_servers)


def test_both_admins_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}

    assert public(AsyncAdmin) - public(Admin) == {"on"}
    assert public(Admin) <= public(AsyncAdmin)
    assert all(getattr(Admin, name).__doc__ for name in public(Admin))
    assert {"Admin", "AsyncAdmin"} <= set(tidelog.__all__)


def test_an_async_admin_does_several_things_at_once(cluster: EmbeddedCluster) -> None:
    async def work() -> list[str]:
        async with AsyncAdmin(bootstrap_servers=[cluster.bootstrap_servers]) as admin:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(admin.create_topics([NewTopic(f"side-{n}")])) for n in range(5)]
            return sorted(value_of(outcome).name for task in tasks for outcome in task.result().values())

    assert asyncio.run(work()) == [f"side-{n}" for n in range(5)]


def test_an_option_that_does_not_exist_is_refused_with_the_nearest(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ConfigError, match="did you mean default_api_timeout_ms"):
        Admin(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        Admin()


def test_a_closed_admin_says_so(cluster: EmbeddedCluster) -> None:
    admin = Admin(bootstrap_servers=cluster.bootstrap_servers)
    admin.list_topics()
    admin.close()
    admin.close()

    with pytest.raises(ClosedError):
        admin.list_topics()


def test_a_cluster_that_is_not_there_is_told_at_once_or_waited_for() -> None:
    with Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=300) as admin:
        with pytest.raises(NotReachedError, match=r"cannot connect to 127\.0\.0\.1:1"):
            admin.connect()
        began = time.monotonic()
        with pytest.raises(
            TimedOutError, match="the 300 ms of default_api_timeout_ms leave no time to try again"
        ) as told:
            admin.list_topics()
        waited_ms = (time.monotonic() - began) * 1000
    said = re.search(r"no good answer in (\d+) ms", str(told.value))
    assert said is not None
    # The loop reads its clock once a turn, in whole milliseconds: it may be a few of them behind or ahead of ours.
    assert int(said[1]) <= waited_ms + 10


def test_nothing_asked_is_nothing_done(admin: Admin) -> None:
    assert admin.create_topics([]) == {}
    assert admin.delete_topics([]) == {}
    assert admin.delete_topics_by_id([]) == {}
    assert admin.describe_topics([]) == {}
    assert admin.create_partitions({}) == {}
    assert admin.list_offsets({}) == {}
    assert admin.describe_configs([]) == {}
    assert admin.describe_groups([]) == {}
    assert admin.alter_group_offsets("g", {}) == {}
    with pytest.raises(ConfigError, match="is not an id"):
        admin.delete_topics_by_id(["orders"])
    with pytest.raises(ConfigError, match="has replicas placed"):
        admin.create_topics([NewTopic("x", partitions=2, replicas=[[1]])])
