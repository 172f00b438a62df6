"""IncrementalAlterConfigs (44), v0-1: set, unset, extend or shorten single values of a configuration.

Topics, brokers one or all, their loggers, groups and client metrics. A resource is changed as a whole or not at all; the answer
keeps the order of the request. `config_changes` says what is done here and what the controller decides.
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
from tidelog.wire.messages.configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse


@handles(IncrementalAlterConfigsRequest)
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, caller: Caller, node: Node
) -> Answer[IncrementalAlterConfigsResponse]:
    resources = [
        ResourceChanges(
            resource.resource_type,
            resource.resource_name,
            [Change(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    if node.is_controller_listener(caller.listener_name):
        outcomes = check_at_controller(
            resources, caller, node.node_id, incremental=True, apply=not request.validate_only
        )
    else:
        outcomes = check_resources(
            resources, caller, broker_config(node), incremental=True, apply=not request.validate_only
        )

    def decided(outcomes: list[Outcome | None]) -> Answer[IncrementalAlterConfigsResponse]:
        remaining = [each for each, outcome in zip(request.resources, outcomes, strict=True) if outcome is None]
        asked = IncrementalAlterConfigsRequest(resources=remaining, validate_only=request.validate_only)
        return answer_changes(
            IncrementalAlterConfigsResponse,
            resources,
            outcomes,
            lambda: node.forward(asked, IncrementalAlterConfigsResponse, caller),
        )

    return when_stores_are_checked(resources, outcomes, node, decided, incremental=True)
