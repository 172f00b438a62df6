"""What the controller is asked: each of its answers can be given in each version that it may be asked in."""

from __future__ import annotations

import pytest

from tests.support.message_values import values_for
from tidelog.controller.requests import APIS, cut_to_version, is_not_controller, refusal_of
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import api
from tidelog.wire.codec import encode
from tidelog.wire.messages.configs import AlterConfigsRequest, AlterConfigsResponse
from tidelog.wire.schema import Request

VERSIONS = [
    (kind, version)
    for kind in APIS
    for version in range(api(kind.api_key).stable_versions.lowest, api(kind.api_key).stable_versions.highest + 1)
]


@pytest.mark.parametrize(("kind", "version"), VERSIONS, ids=lambda each: getattr(each, "__name__", f"v{each}"))
def test_a_refusal_can_be_encoded_in_every_version(kind: type[Request], version: int) -> None:
    for seed in range(5):
        request = values_for(kind, version, seed)
        refusal = refusal_of(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        assert encode(cut_to_version(request, refusal, version), version)


def test_the_answer_to_a_request_for_nothing_is_no_refusal() -> None:
    answer = AlterConfigsResponse(throttle_time_ms=0, responses=[])
    assert not is_not_controller(AlterConfigsRequest(resources=[], validate_only=False), answer)
