from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import CONTROLLER_LISTENER, AdminNode, ask, caller_of, features
from tidelog.broker.handlers import (
    alter_configs,
    api_versions,
    fetch,
    get_telemetry_subscriptions,
    metadata,
    push_telemetry,
    quorum_apis,
)
from tidelog.broker.handlers.api_versions import announced_versions
from tidelog.broker.requests.handling import HANDLERS, Handler
from tidelog.controller.features import BOOTSTRAP_LEVELS, SUPPORTED
from tidelog.model.errors import ErrorCode
from tidelog.net.connection import UNKNOWN_SOFTWARE, ClientSoftware
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

REQUEST = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.15.0")
# Handlers are known once their modules are imported.
ANSWERED = (alter_configs, api_versions, fetch, get_telemetry_subscriptions, metadata, push_telemetry, quorum_apis)
TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


@pytest.mark.parametrize("version", range(5))
def test_what_has_a_handler_is_announced_in_every_version(version: int) -> None:
    answer = ask(AdminNode(), REQUEST, ApiVersionsResponse, version)

    assert answer.error_code == ErrorCode.NONE
    announced = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert announced[ApiKey.METADATA] == (0, 13)
    assert announced[ApiKey.API_VERSIONS] == (0, 4)
    assert list(announced) == sorted(
        key for key, each in HANDLERS.items() if "broker" in each.listener_kinds and key not in TELEMETRY
    )


def test_telemetry_is_announced_where_somebody_receives_it() -> None:
    node = AdminNode(static={"tidelog.client.telemetry.enable": "true"})

    assert {each.api_key for each in ask(node, REQUEST, ApiVersionsResponse, 4).api_keys} >= TELEMETRY


def test_a_listener_for_controllers_announces_other_apis() -> None:
    answer = ask(AdminNode(), REQUEST, ApiVersionsResponse, 4, listener=CONTROLLER_LISTENER)

    keys = {each.api_key for each in answer.api_keys}
    assert ApiKey.METADATA not in keys
    # There it is the fetch of the metadata log.
    assert {ApiKey.FETCH, ApiKey.VOTE, ApiKey.FETCH_SNAPSHOT} <= keys
    assert ApiKey.ALTER_CONFIGS in keys


def test_produce_is_announced_from_0_on_for_librdkafkas_sake() -> None:
    produce = api(ApiKey.PRODUCE)
    answer = HANDLERS[ApiKey.METADATA].answer
    all_of_it = Handler(ApiKey.PRODUCE, produce.stable_versions.lowest, produce.stable_versions.highest, answer)
    part_of_it = Handler(ApiKey.PRODUCE, 9, 9, answer)

    assert (announced_versions(all_of_it).min_version, announced_versions(all_of_it).max_version) == (0, 13)
    assert announced_versions(part_of_it).min_version == 9


def test_features_are_told_from_v3_on_with_the_offset_of_the_image_as_epoch() -> None:
    node = AdminNode(*features())

    answer = ask(node, REQUEST, ApiVersionsResponse, 4)

    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert finalized == {**BOOTSTRAP_LEVELS, "kraft.version": 1}
    assert all(each.max_version_level == each.min_version_level for each in answer.finalized_features)
    assert answer.finalized_features_epoch == node.image.offset
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    assert supported == {name: (levels.lowest, levels.highest) for name, levels in SUPPORTED.items()}
    assert ask(node, REQUEST, ApiVersionsResponse, 2).finalized_features == []


def test_before_v4_features_whose_lowest_level_is_0_are_left_out() -> None:
    answer = ask(AdminNode(*features()), REQUEST, ApiVersionsResponse, 3)

    assert [each.name for each in answer.supported_features] == ["metadata.version"]


def test_a_quorum_of_static_voters_has_no_version_to_tell() -> None:
    node = AdminNode(*features())
    node.quorum.kraft_version = 0

    answer = ask(node, REQUEST, ApiVersionsResponse, 4)

    assert "kraft.version" not in {each.name for each in answer.finalized_features}


@pytest.mark.parametrize(
    "software", [("", "1"), ("a", ""), ("-a", "1"), ("a.", "1"), ("a b", "1"), ("a", "1\n"), ("ä", "1")]
)
def test_a_client_with_an_odd_name_is_refused(software: tuple[str, str]) -> None:
    request = ApiVersionsRequest(client_software_name=software[0], client_software_version=software[1])
    caller = caller_of(request, 3)

    answer = ask(AdminNode(), request, ApiVersionsResponse, 3, caller=caller)

    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert caller.connection.client_software == UNKNOWN_SOFTWARE


def test_what_the_client_calls_itself_is_kept_with_its_connection() -> None:
    caller = caller_of(REQUEST, 3)

    ask(AdminNode(), REQUEST, ApiVersionsResponse, 3, caller=caller)

    assert caller.connection.client_software == ClientSoftware("librdkafka", "2.15.0")
