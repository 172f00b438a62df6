"""Hold a follower, kill a leader, start it again: only where `tidelog up` has started the console, with its own cluster."""

from __future__ import annotations

from tidelog.console.play import Play
from tidelog.console.serving.answers import Json
from tidelog.console.serving.api_error import ApiError, wrong_question
from tidelog.console.serving.call import Call, change, get

HOLD_MAX_S = 60
_HOLD_S = 30


def _play(call: Call) -> Play:
    play = call.console.play
    if play is None or call.cluster is not call.console.options.clusters[0]:
        raise ApiError(
            404,
            "NO_PLAY",
            "nobody may hold or kill nodes of this cluster from here",
            "`tidelog up --console` starts one that may",
        )
    return play


async def show_nodes(call: Call) -> Json:
    return {"nodes": await _play(call).ask("list")}


async def _node(call: Call) -> tuple[Play, int, dict[str, Json]]:
    play, body = _play(call), await call.body()
    node = body.get("node")
    if not isinstance(node, int) or isinstance(node, bool):
        raise wrong_question("node is a number")
    call.details["node"] = node
    return play, node, body


async def hold(call: Call) -> Json:
    play, node, body = await _node(call)
    seconds = body.get("seconds", _HOLD_S)
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 1 <= seconds <= HOLD_MAX_S:
        raise wrong_question(f"seconds is a number from 1 to {HOLD_MAX_S}")
    call.details["seconds"] = seconds
    nodes = await play.ask("hold", node, seconds=seconds)
    assert call.session is not None, "a change has a session"
    play.held_by(node, call.session)
    return {"nodes": nodes}


async def release(call: Call) -> Json:
    play, node, _ = await _node(call)
    return {"nodes": await play.ask("release", node)}


async def kill(call: Call) -> Json:
    play, node, _ = await _node(call)
    return {"nodes": await play.ask("kill", node)}


async def start(call: Call) -> Json:
    play, node, _ = await _node(call)
    return {"nodes": await play.ask("start", node)}


ROUTES = [
    get("/play", show_nodes),
    change("POST", "/play/hold", hold, "hold node"),
    change("POST", "/play/release", release, "release node"),
    change("POST", "/play/kill", kill, "kill node"),
    change("POST", "/play/start", start, "start node"),
]
