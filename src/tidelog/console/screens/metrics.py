"""The console's own metrics, for Prometheus: how far groups are behind, in records and in seconds.

Of clusters that need no login alone: what a person may see is no answer for whoever scrapes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tidelog.console.console import Console
from tidelog.console.serving.api_error import ApiError
from tidelog.model.metrics_text import CONTENT_TYPE, number_text

# Lines; the groups that lag most come first.
SERIES_MAX = 100_000
_LINES_PER_PIECE = 500
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


async def show_metrics(request: Request) -> Response:
    console: Console = request.app.state.console
    for cluster in console.options.clusters:
        if not cluster.needs_login:
            # Whoever scrapes keeps the samples going.
            with suppress(ApiError):
                async with console.views.used(cluster, None):
                    pass
    return StreamingResponse(_pieces(console), media_type=CONTENT_TYPE)


async def _pieces(console: Console) -> AsyncIterator[str]:
    piece: list[str] = []
    for line in lines(console, time.time()):
        piece.append(line)
        if len(piece) >= _LINES_PER_PIECE:
            yield "".join(piece)
            piece.clear()
    yield "".join(piece)


def lines(console: Console, now_s: float) -> Iterator[str]:
    lags: list[str] = []
    ages: list[str] = []
    for cluster in console.options.clusters:
        view = None if cluster.needs_login else console.views.everybody(cluster)
        if view is None:
            continue
        sampler = view.sampler
        # A copy: rounds go on while the answer is sent.
        groups = sorted(sampler.groups.groups.items(), key=lambda each: -(each[1].lag or 0))
        for group_id, group in groups:
            for partition, commit in list(group.commits.items()):
                if len(lags) >= SERIES_MAX:
                    break
                end = sampler.partitions.end(partition)
                if end is None:
                    continue
                labels = (
                    f'{{cluster="{cluster.name.translate(_ESCAPES)}",group="{group_id.translate(_ESCAPES)}",'
                    f'topic="{partition.topic}",partition="{partition.partition}"}}'
                )
                lags.append(f"kafka_consumergroup_lag{labels} {max(0, end - commit.offset)}\n")
                seconds = sampler.times.seconds(partition, commit.offset, now_s)
                if seconds is not None:
                    ages.append(f"kafka_consumergroup_lag_seconds{labels} {number_text(round(seconds, 3))}\n")
    yield "# HELP kafka_consumergroup_lag Records between what a group has committed and the end of the partition.\n"
    yield "# TYPE kafka_consumergroup_lag gauge\n"
    yield from lags
    yield "# HELP kafka_consumergroup_lag_seconds How long ago the record was written that a group reads next.\n"
    yield "# TYPE kafka_consumergroup_lag_seconds gauge\n"
    yield from ages
    yield "# HELP tidelog_console_views Clusters that are looked at, once for each user.\n"
    yield "# TYPE tidelog_console_views gauge\n"
    yield f"tidelog_console_views {len(console.views)}\n"
    yield "# HELP tidelog_console_sessions Browsers that have a session.\n"
    yield "# TYPE tidelog_console_sessions gauge\n"
    yield f"tidelog_console_sessions {len(console.sessions)}\n"
