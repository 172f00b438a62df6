"""`/trace` and `/log` of a node, for those who may look inside it.

They tell which clients write and read what, and where records lie: nobody is told who is not on this machine, or has no token and
no encrypted connection (403). A web page that somebody visits on this machine is not somebody on this machine: the request has to
name an address or `localhost`, which a page that has taken over a name (DNS rebinding) cannot.
"""

from __future__ import annotations

from http import HTTPStatus
from ipaddress import ip_address

from tidelog.broker.requests.node_view import Node
from tidelog.broker.watching.log_page import LogPages
from tidelog.broker.watching.trace_page import TracePages
from tidelog.model.pending import Pending
from tidelog.model.slow_work import SlowWork
from tidelog.net.http_endpoint import Answer, HttpEndpoint, HttpRequest, Page, is_loopback, plain_page

_NOT_PRIVATE = "this port is open to other machines: /trace and /log need --metrics-cert and --metrics-token-file there"
_WRONG_HOST = "ask for this machine by its address, or as localhost"
_NOT_SERVING = "the node is no broker, or does not serve yet: see /health"


class InsidePages:
    """Both pages of one node."""

    def __init__(self, node: Node, endpoint: HttpEndpoint, slow_work: SlowWork) -> None:
        self._endpoint = endpoint
        self._trace = TracePages(node)
        self._log = LogPages(node, slow_work)

    def page(self, request: HttpRequest, *, serves: bool) -> Answer | Pending[Page]:
        if not self._endpoint.is_private:
            return plain_page(HTTPStatus.FORBIDDEN, _NOT_PRIVATE)
        if is_loopback(self._endpoint.address.host) and not _names_this_machine(request.host):
            return plain_page(HTTPStatus.FORBIDDEN, _WRONG_HOST)
        if not serves:
            return plain_page(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_SERVING)
        return self._log.page(request) if request.path == "/log" else self._trace.page(request)


def _names_this_machine(host: str | None) -> bool:
    if host is None:
        return False
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
