"""What each screen asks for: an endpoint a function, a family of them a module."""

from __future__ import annotations

from starlette.routing import Route

from tidelog.console.screens import (
    access,
    disks,
    groups,
    overview,
    pipelines,
    play,
    produce,
    records,
    topics,
    transactions,
    xray,
)

ROUTES: list[Route] = [
    each
    for screen in (overview, topics, records, produce, groups, transactions, disks, access, pipelines, xray, play)
    for each in screen.ROUTES
]
