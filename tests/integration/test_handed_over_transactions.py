"""Transactions that one process writes and another one ends: what the writer knows of it, and how it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.transaction_scenarios import create, producer_of, read
from tidelog import Admin, Producer
from tidelog.client.admin import UpgradeType
from tidelog.client.errors import ClosedError, ConfigError, ProducerFencedError, TransactionStateError
from tidelog.testing import EmbeddedCluster


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        if request.param == 1:
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                admin.update_features({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        yield cluster.bootstrap_servers


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"t-{uuid4().hex[:12]}"
    create(bootstrap, name)
    return name


@pytest.fixture
def producer(bootstrap: str, topic: str) -> Iterator[Producer]:
    with producer_of(bootstrap, f"x-{topic}") as made:
        made.init_transactions()
        yield made


def handed_over(producer: Producer, topic: str, value: bytes) -> tuple[str, int, int]:
    producer.begin_transaction()
    producer.send(topic, value)
    return producer.hand_over_transaction()


@pytest.mark.parametrize("ends", [[True, False, True], [False, True, True], [True, True, False]])
def test_a_producer_goes_on_after_others_have_ended_its_transactions(
    bootstrap: str, producer: Producer, topic: str, ends: list[bool]
) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        for number, commit in enumerate(ends):
            written = handed_over(producer, topic, b"%d" % number)
            with pytest.raises(TransactionStateError, match="nobody has ended the transaction"):
                producer.resume_transactions()
            with pytest.raises(TransactionStateError, match="the transaction is prepared"):
                producer.begin_transaction()
            admin.end_transaction(*written, commit=commit)
            producer.resume_transactions()
    with producer.transaction():
        producer.send(topic, b"own")

    expected = [b"%d" % number for number, commit in enumerate(ends) if commit]
    assert read(bootstrap, topic, committed=True) == [*expected, b"own"]


def test_a_transaction_that_was_handed_over_stays_when_its_producer_closes(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    written = handed_over(producer, topic, b"kept")
    producer.close()

    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.end_transaction(*written, commit=True)

    assert read(bootstrap, topic, committed=True) == [b"kept"]


def test_a_producer_whose_id_another_one_has_taken_does_not_go_on(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    handed_over(producer, topic, b"aborted by the other one")
    with producer_of(bootstrap, f"x-{topic}") as other:
        other.init_transactions()
        with pytest.raises(ProducerFencedError):
            producer.resume_transactions()
        with other.transaction():
            other.send(topic, b"the other one's")

    assert read(bootstrap, topic, committed=True) == [b"the other one's"]


def test_there_is_nothing_to_resume_where_nothing_was_handed_over(producer: Producer) -> None:
    with pytest.raises(TransactionStateError, match="resume_transactions is not possible now: no transaction is open"):
        producer.resume_transactions()


def test_what_is_open_is_left_alone_where_that_is_asked_for(bootstrap: str, producer: Producer, topic: str) -> None:
    name = f"x-{topic}"
    written = handed_over(producer, topic, b"kept")
    with producer_of(bootstrap, name) as other, Admin(bootstrap_servers=bootstrap) as admin:
        with pytest.raises(TransactionStateError, match="it is left alone"):
            other.init_transactions(unless_open=True)
        admin.end_transaction(*written, commit=True)
        other.init_transactions(unless_open=True)
        with other.transaction():
            other.send(topic, b"the other one's")
    with producer_of(bootstrap, f"{name}-new") as unknown:
        unknown.init_transactions(unless_open=True)

    assert read(bootstrap, topic, committed=True) == [b"kept", b"the other one's"]


def test_a_producer_goes_on_under_another_id_over_the_same_connections(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    first = handed_over(producer, topic, b"1")
    second_producer = producer.continue_as(f"y-{topic}")
    with pytest.raises(ClosedError):
        producer.begin_transaction()
    producer.close()
    second_producer.init_transactions()
    second = handed_over(second_producer, topic, b"2")
    third_producer = second_producer.continue_as(f"x-{topic}")
    with pytest.raises(ClosedError):
        second_producer.continue_as("z")

    with third_producer, Admin(bootstrap_servers=bootstrap) as admin:
        admin.end_transaction(*first, commit=True)
        admin.end_transaction(*second, commit=True)
        third_producer.init_transactions(unless_open=True)
        with third_producer.transaction():
            third_producer.send(topic, b"3")

    assert read(bootstrap, topic, committed=True) == [b"1", b"2", b"3"]


def test_only_a_producer_with_transactions_goes_on_as_another(bootstrap: str, producer: Producer) -> None:
    with pytest.raises(ConfigError, match="transactional_id is empty"):
        producer.continue_as("")
    with (
        Producer(bootstrap_servers=bootstrap) as plain,
        pytest.raises(TransactionStateError, match="need a transactional_id"),
    ):
        plain.continue_as("x")


def test_a_producer_knows_whether_another_one_has_taken_its_id(bootstrap: str, producer: Producer, topic: str) -> None:
    assert producer.holds_transactional_id()
    with producer.transaction():
        producer.send(topic, b"one")
        with pytest.raises(TransactionStateError, match="holds_transactional_id is not possible now"):
            producer.holds_transactional_id()
    assert producer.holds_transactional_id()

    with producer_of(bootstrap, f"x-{topic}") as other:
        other.init_transactions()
        assert not producer.holds_transactional_id()
        assert other.holds_transactional_id()
