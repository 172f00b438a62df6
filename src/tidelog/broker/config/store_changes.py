"""Changes of the stores of keys and certificates at run time: whether they may be takes files to tell, and so comes later.

Before anything is written down: a store that cannot be read, or must not replace the one in use, is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelog.broker.config.config_changes import Outcome, ResourceChanges, broker_config, changed_values
from tidelog.broker.config.config_resources import ConfigResourceType, node_id_of
from tidelog.broker.config.config_view import BrokerConfigView, effective_config
from tidelog.broker.requests.node_view import Node
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.tls_config import STORE_NAMES
from tidelog.security.listener_settings import without_listener

A = TypeVar("A")


def when_stores_are_checked(
    resources: Sequence[ResourceChanges],
    outcomes: list[Outcome | None],
    node: Node,
    then: Callable[[list[Outcome | None]], A | Pending[A]],
    *,
    incremental: bool,
) -> A | Pending[A]:
    """`then` of the outcomes: at once, unless one of the resources changes a store, which may then be refused."""
    index = next(
        (at for at, each in enumerate(resources) if outcomes[at] is None and _concerns_stores(each, node)), None
    )
    if index is None:
        return then(outcomes)
    answered: Pending[A] = Pending()

    def checked(problem: ConfigError | None) -> None:
        if problem is not None:
            outcomes[index] = Outcome(ErrorCode.INVALID_REQUEST, str(problem))
        answer = then(outcomes)
        if isinstance(answer, Pending):
            answer.then(answered.complete)
        else:
            answered.complete(answer)

    node.tls.check(_changed_config(resources[index], node, incremental=incremental)).then(checked)
    return answered


def _concerns_stores(resource: ResourceChanges, node: Node) -> bool:
    """Whether it is this node's stores that change. Those of another broker were checked there before a controller is asked."""
    return (
        resource.type == ConfigResourceType.BROKER
        and node_id_of(resource.name) == node.node_id
        and any(without_listener(change.name) in STORE_NAMES for change in resource.changes)
    )


def _changed_config(resource: ResourceChanges, node: Node, *, incremental: bool) -> ConfigValues:
    """What the broker's configuration would come to."""
    view = BrokerConfigView.of(node.static_config, node.image, node.node_id)
    own = changed_values(resource, broker_config(node), incremental=incremental)
    changed = BrokerConfigView(view.table, own, view.dynamic_default, view.static)
    return effective_config(node.static_config, changed)
