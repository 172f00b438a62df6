from __future__ import annotations

import pytest

from tidelog.wire.apis import ApiKey, all_apis, api
from tidelog.wire.errors import UnknownApiError


def test_every_key_has_a_request_and_a_response_that_agree() -> None:
    for each in all_apis():
        assert each.request.api_key == each.response.api_key == each.key
        assert each.request.versions == each.response.versions
        assert each.request.__name__ == f"{each.name}Request"
        assert each.response.__name__ == f"{each.name}Response"
        assert set(each.listener_kinds) <= {"broker", "controller"}
        assert each.listener_kinds
        for version in each.versions.each():
            assert (version in each.request.flexible) == (version in each.response.flexible)


def test_kafka_has_89_apis_and_77_of_them_on_brokers() -> None:
    assert len(all_apis()) == 89
    assert sum("broker" in each.listener_kinds for each in all_apis()) == 77


def test_headers_are_flexible_where_the_api_is() -> None:
    produce = api(ApiKey.PRODUCE)

    assert [produce.request_header_version(version) for version in (8, 9)] == [1, 2]
    assert [produce.response_header_version(version) for version in (8, 9)] == [0, 1]


def test_the_answer_of_api_versions_never_has_a_flexible_header() -> None:
    asked = api(ApiKey.API_VERSIONS)

    assert [asked.request_header_version(version) for version in (2, 3, 99)] == [1, 2, 2]
    assert {asked.response_header_version(version) for version in range(100)} == {0}


def test_sasl_handshake_is_never_flexible() -> None:
    assert not any(api(ApiKey.SASL_HANDSHAKE).is_flexible(version) for version in range(10))


def test_produce_announces_versions_that_it_refuses() -> None:
    produce = api(ApiKey.PRODUCE)

    assert produce.announced_versions == (0, 13)
    assert produce.versions == (3, 13)


def test_an_unstable_version_is_not_announced() -> None:
    init_producer_id = api(ApiKey.INIT_PRODUCER_ID)

    assert init_producer_id.versions == (0, 6)
    assert init_producer_id.announced_versions == (0, 5)


@pytest.mark.parametrize("key", [-1, 4, 93, 32_767])
def test_a_key_that_does_not_exist(key: int) -> None:
    with pytest.raises(UnknownApiError, match=f"no API with the key {key}"):
        api(key)
