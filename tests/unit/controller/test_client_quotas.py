"""AlterClientQuotas: what is refused in which words, and what is written."""

from __future__ import annotations

import pytest

from tests.support.metadata_node import MetadataNode
from tests.unit.broker.admin_node import features, image_of
from tidelog.controller.client_quotas import decide_alter_client_quotas, host_names
from tidelog.controller.decision import Decision
from tidelog.controller.image import ClusterImage, QuotaEntity
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from tidelog.wire.messages.internal.cluster_security import ClientQuotaRecord

Entity = dict[str, str | None]
Ops = dict[str, float | None]
USER: Entity = {"user": "alice"}


def entry(entity: Entity, ops: Ops) -> AlterClientQuotasEntryData:
    return AlterClientQuotasEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            OpData(key=key, value=0.0 if value is None else value, remove=value is None) for key, value in ops.items()
        ],
    )


def decided(
    *entries: AlterClientQuotasEntryData, image: ClusterImage | None = None, validate_only: bool = False
) -> Decision[AlterClientQuotasResponse]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return decide_alter_client_quotas(image or image_of(*features()), request)


def told(decision: Decision[AlterClientQuotasResponse]) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in decision.answer.entries]


@pytest.mark.parametrize(
    ("entity", "ops", "message"),
    [
        ({}, {"producer_byte_rate": 1}, "Invalid empty client quota entity"),
        ({"group": "g"}, {"producer_byte_rate": 1}, "Unhandled client quota entity type: group"),
        ({"user": ""}, {"producer_byte_rate": 1}, "Empty user not supported"),
        (
            {"ip": "1.2.3.4", "user": "u"},
            {"connection_creation_rate": 1},
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ({"ip": "1.2.3"}, {"connection_creation_rate": 1}, "1.2.3 is not a valid IP or resolvable host."),
        (USER, {"connection_creation_rate": 1}, "Invalid configuration key connection_creation_rate"),
        ({"ip": None}, {"producer_byte_rate": 1}, "Invalid configuration key producer_byte_rate"),
        (USER, {"producer_byte_rate": -1}, "Quota producer_byte_rate must be greater than 0"),
        (USER, {"request_percentage": 0}, "Quota request_percentage must be greater than 0"),
        (USER, {"request_percentage": float("nan")}, "Quota request_percentage must be greater than 0"),
        (USER, {"producer_byte_rate": 1e19}, "Proposed value for producer_byte_rate is too large for a LONG."),
        (USER, {"consumer_byte_rate": 1.5}, "consumer_byte_rate cannot be a fractional value."),
        (
            {"ip": "::1"},
            {"connection_creation_rate": 2.0**31},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_what_is_refused_in_kafkas_words(entity: Entity, ops: Ops, message: str) -> None:
    decision = decided(entry(entity, ops))

    assert told(decision) == [(ErrorCode.INVALID_REQUEST, message)]
    assert decision.records == ()


def test_limits_are_written_with_their_entity_in_kafkas_order() -> None:
    decision = decided(
        entry({"user": "alice", "client-id": None}, {"producer_byte_rate": 5.0, "request_percentage": 1.5})
    )

    assert told(decision) == [(ErrorCode.NONE, None)]
    written = [record.message for record in decision.records]
    assert all(isinstance(record, ClientQuotaRecord) for record in written)
    assert [(each.key, each.value, each.remove) for each in written if isinstance(each, ClientQuotaRecord)] == [
        ("producer_byte_rate", 5.0, False),
        ("request_percentage", 1.5, False),
    ]
    first = written[0]
    assert isinstance(first, ClientQuotaRecord)
    assert [(part.entity_type, part.entity_name) for part in first.entity] == [("client-id", None), ("user", "alice")]


def test_what_is_there_already_makes_no_record_and_what_is_not_there_is_not_removed() -> None:
    node = MetadataNode()
    node.start()
    request = AlterClientQuotasRequest(entries=[entry(USER, {"producer_byte_rate": 5.0})], validate_only=False)
    node.ask(request, AlterClientQuotasResponse)

    unchanged = decided(entry(USER, {"producer_byte_rate": 5.0, "consumer_byte_rate": None}), image=node.image)
    changed = decided(entry(USER, {"producer_byte_rate": None}), image=node.image)

    assert node.image.quotas == {QuotaEntity((("user", "alice"),)): {"producer_byte_rate": 5.0}}
    assert unchanged.records == ()
    assert told(unchanged) == [(ErrorCode.NONE, None)]
    assert len(changed.records) == 1


def test_nothing_is_written_where_it_is_only_validated() -> None:
    decision = decided(entry(USER, {"producer_byte_rate": 5.0}), validate_only=True)

    assert told(decision) == [(ErrorCode.NONE, None)]
    assert decision.records == ()


def test_an_entity_that_is_there_twice_is_told_so() -> None:
    decision = decided(
        entry({"user": "a", "client-id": "b"}, {"producer_byte_rate": 5.0}),
        entry({"client-id": "b", "user": "a"}, {"producer_byte_rate": 6.0}),
    )

    message = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=b, user=a})"
    assert told(decision) == [(ErrorCode.INVALID_REQUEST, message)]
    assert len(decision.records) == 1


def test_one_entity_that_is_refused_does_not_keep_the_others_from_it() -> None:
    decision = decided(
        entry(USER, {"producer_byte_rate": 5.0, "nonsense": 1.0}), entry({"user": None}, {"producer_byte_rate": 1.0})
    )

    assert told(decision) == [(ErrorCode.INVALID_REQUEST, "Invalid configuration key nonsense"), (ErrorCode.NONE, None)]
    assert len(decision.records) == 1


def test_a_host_that_can_be_resolved_is_an_address() -> None:
    entries = [entry({"ip": name}, {"connection_creation_rate": 1}) for name in ("db.example", "gone.example")]
    request = AlterClientQuotasRequest(entries=entries, validate_only=False)

    decision = decide_alter_client_quotas(image_of(*features()), request, {"db.example"})

    gone = "gone.example is not a valid IP or resolvable host."
    assert told(decision) == [(0, None), (ErrorCode.INVALID_REQUEST, gone)]
    assert len(decision.records) == 1


def test_only_what_is_no_address_has_to_be_looked_up_and_once() -> None:
    named: list[Entity] = [
        {"ip": "b"},
        {"ip": "::1"},
        {"ip": "1.2.3.4"},
        {"ip": None},
        {"ip": ""},
        {"ip": "a"},
        {"ip": "b"},
    ]
    request = AlterClientQuotasRequest(entries=[entry(each, {}) for each in [*named, USER]], validate_only=False)

    assert host_names(request) == ["b", "a"]
