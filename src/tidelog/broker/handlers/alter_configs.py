"""AlterConfigs (33), v0-2: all the values that a configuration is to have; what is not named is unset.

Superseded by IncrementalAlterConfigs, with which it shares everything but two things: it knows no loggers, and no operations.
"""

from __future__ import annotations

from tidelog.broker.config.config_changes import (
    Change,
    Outcome,
    ResourceChanges,
    answer_changes,
    broker_config,
    check_at_controller,
    check_resources,
)
from tidelog.broker.config.store_changes import when_stores_are_checked
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.configs import Operation
from tidelog.wire.messages.configs import AlterConfigsRequest, AlterConfigsResponse


@handles(AlterConfigsRequest)
def alter_configs(request: AlterConfigsRequest, caller: Caller, node: Node) -> Answer[AlterConfigsResponse]:
    resources = [
        ResourceChanges(
            resource.resource_type,
            resource.resource_name,
            [Change(config.name, Operation.SET, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    if node.is_controller_listener(caller.listener_name):
        outcomes = check_at_controller(resources, caller, node.node_id, incremental=False, apply=False)
    else:
        outcomes = check_resources(resources, caller, broker_config(node), incremental=False, apply=False)

    def decided(outcomes: list[Outcome | None]) -> Answer[AlterConfigsResponse]:
        remaining = [each for each, outcome in zip(request.resources, outcomes, strict=True) if outcome is None]
        asked = AlterConfigsRequest(resources=remaining, validate_only=request.validate_only)
        return answer_changes(
            AlterConfigsResponse,
            resources,
            outcomes,
            lambda: node.forward(asked, AlterConfigsResponse, caller),
        )

    return when_stores_are_checked(resources, outcomes, node, decided, incremental=False)
