"""What one console consists of: its clusters, sessions, views and audit log."""

from __future__ import annotations

from starlette.requests import Request

from tidelog.console.cluster.views import Views
from tidelog.console.options import ClusterOptions, ConsoleOptions
from tidelog.console.play import Play
from tidelog.console.records.value_text import ValueDecoder
from tidelog.console.serving.audit import Audit
from tidelog.console.serving.sessions import Session, Sessions
from tidelog.console.xray.node_http import NodeHttp
from tidelog.model.clock import SystemClock


class Console:
    """Made on the loop that serves it."""

    def __init__(self, options: ConsoleOptions, port: int) -> None:
        self.options = options
        self.clusters: dict[str, ClusterOptions] = {each.name: each for each in options.clusters}
        self.sessions = Sessions(SystemClock())
        self.views = Views()
        self.audit = Audit(options.audit_file)
        self._decoders = {each.name: ValueDecoder(each.registry) for each in options.clusters}
        self.nodes = NodeHttp(options.trace_token, options.trace_authorities)
        self.play: Play | None = None
        """Set by the server, where there is somebody to play with."""
        # Cookies know no ports: two consoles on one machine must not take each other's.
        self.cookie = f"tidelog_console_{port}"

    def session_of(self, request: Request) -> Session | None:
        return self.sessions.find(request.cookies.get(self.cookie))

    def decoder(self, cluster: ClusterOptions) -> ValueDecoder:
        """What makes bytes of this cluster's records readable."""
        return self._decoders[cluster.name]

    async def close(self) -> None:
        await self.views.close()
        self.audit.close()
