"""What each screen asks for: an endpoint a function, a family of them a module."""

from __future__ import annotations

from starlette.routing import Route

from tidelog.console.screens import groups, overview, records, topics

ROUTES: list[Route] = [*overview.ROUTES, *topics.ROUTES, *records.ROUTES, *groups.ROUTES]
