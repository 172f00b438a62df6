"""This node's own controller, as the way to the active one finds it: what a client asks is authorised like any request there.

A broker passes a client's request on without a judgement of its own, as Kafka's does. The controller that decides it judges: by
the client's principal and address, with the handler that also answers those who ask a controller directly. So there is one place
that decides, whether the request came in an envelope or the broker is a controller itself.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.cluster import envelopes
from tidelog.broker.requests.caller import Authorizer, Caller
from tidelog.broker.requests.forwarded import Forwarded
from tidelog.broker.requests.handling import HANDLERS
from tidelog.broker.requests.node_view import Node
from tidelog.controller.controller import Controller, ControllerContext
from tidelog.controller.requests import refusal_of
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Failed, Pending
from tidelog.wire.schema import Request, Response

ClientsRequest = Callable[[Request, ControllerContext], Pending[Response]]


class LocalController:
    """What the way to the active controller asks where that is on this node."""

    def __init__(self, controller: Controller, for_client: ClientsRequest) -> None:
        """`for_client` authorises and decides what is asked on a client's behalf."""
        self._controller = controller
        self._for_client = for_client

    @property
    def is_active(self) -> bool:
        return self._controller.is_active

    def handle(self, request: Request, context: ControllerContext | None) -> Pending[Response]:
        """Decide. Without a context it is this node that asks."""
        if context is None:
            return self._controller.handle(request, ControllerContext())
        return self._for_client(request, context)


def answer_forwarded(
    request: Request, context: ControllerContext, node: Node, authorizer: Authorizer, listener_name: str
) -> Pending[Response]:
    """What this node's controller answers to a request of somebody else's client. `listener_name` is the controllers'.

    Where it turns out not to be the active one, that is the whole answer, whatever else could be said of parts of the request.
    """
    if not node.is_active_controller:
        return _given(refusal_of(request, ErrorCode.NOT_CONTROLLER))
    origin = Forwarded(context.principal, context.host, listener_name)
    version = envelopes.version_inside(request, context)
    caller = Caller(origin, context.client_id, request.api_key, version, authorizer)
    answer = HANDLERS[request.api_key].answer(request, caller, node)
    if not isinstance(answer, Pending):
        assert answer is not None
        return _given(answer)
    answered: Pending[Response] = Pending()

    def decided(answer: Response | Failed) -> None:
        is_elsewhere = origin.is_controller_elsewhere and not isinstance(answer, Failed)
        answered.complete(refusal_of(request, ErrorCode.NOT_CONTROLLER) if is_elsewhere else answer)  # type: ignore[arg-type]

    answer.then(decided)
    return answered


def _given(answer: Response) -> Pending[Response]:
    given: Pending[Response] = Pending()
    given.complete(answer)
    return given
