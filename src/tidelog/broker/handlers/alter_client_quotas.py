"""AlterClientQuotas (49), v0-1: set or remove the limits of users, client ids and addresses (KIP-546).

The active controller decides, and a broker passes it on as it is. An address may be the name of a host, which must be one that
can be resolved: the controller's node looks it up before it decides, beside its loop.
"""

from __future__ import annotations

from tidelog.broker.handlers.controller_apis import pass_on, refusal_at_controller
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.client_quotas import host_names
from tidelog.model.acl import AclOperation
from tidelog.model.pending import Pending
from tidelog.wire.messages.client_quotas import AlterClientQuotasRequest
from tidelog.wire.schema import Response


@handles(AlterClientQuotasRequest)
def alter_client_quotas(request: AlterClientQuotasRequest, caller: Caller, node: Node) -> Answer[Response]:
    names = host_names(request)
    if not names or not node.is_controller_listener(caller.listener_name):
        return pass_on(request, caller, node, AclOperation.ALTER_CONFIGS)
    refused = refusal_at_controller(request, caller, node, AclOperation.ALTER_CONFIGS)
    if refused is not None:
        return refused
    answered: Pending[Response] = Pending()
    node.known_hosts.look_up(names).then(lambda _: node.forward(request, Response, caller).then(answered.complete))
    return answered
