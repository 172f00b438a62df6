"""Histories of whole clusters that a seed decides: what befalls them while our own clients use them, and what must hold.

run_history(17)                       lives through it; BrokenInvariantError, with how to replay it, where something does not hold
run_history(17, steps=[1, 3])         only these misfortunes of it
run_history(17, is_secured=True)      where everybody logs in, has rights and is held to quotas
shortest(17)                          the fewest misfortunes that still break it
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.simulation.cluster_faults import INTERNAL, MISFORTUNES, OF_LOAD, WEIGHTS, Step, Surroundings, Undo
from tests.simulation.cluster_growth import GUEST, Growth
from tests.simulation.cluster_invariants import BrokenInvariantError, ClusterInvariants, Committed, expect
from tests.simulation.cluster_load import PARTITIONS, TOPIC, GroupLoad, RecordLoad, TransactionLoad
from tests.simulation.cluster_security import SECURED, logins_again, new_asker, prepare, throttled
from tests.simulation.cluster_voters import FIRST, VoterChanges
from tests.support.simulated_cluster import QUICK
from tests.support.simulated_node import Asker
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.net.errors import RequestFailedError
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.loop import SimulationFailedError
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)

# How often the invariants are looked at: between any two messages would be too often to be quick.
LOOK_S = 0.025
# After all faults end: more than every time-out that a node has, and time to catch up.
SETTLE_S_MAX = 30.0
PEACE_S_MAX = 40.0
# Ten times what a history takes.
CALLBACKS_MAX = 100_000
STEPS_MIN, STEPS_MAX = 2, 4

HASTY = {
    **QUICK,
    "broker.heartbeat.interval.ms": "150",
    "replica.lag.time.max.ms": "500",
    "replica.socket.timeout.ms": "1000",
    "replica.fetch.backoff.ms": "200",
    "controller.quorum.fetch.timeout.ms": "250",
    "controller.quorum.request.timeout.ms": "500",
    "leader.imbalance.check.interval.seconds": "2",
}
# Brokers are believed in for longer: what is under way when a link is cut arrives in the same epoch.
PATIENT = {**HASTY, "broker.session.timeout.ms": "2500", "replica.lag.time.max.ms": "400"}
COMMON = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.index.size.max.bytes": "4096",
    # Clocks are set wrong by a day, and a record's date is its producer's.
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
    # A batch a time: who is behind stays so for some moments.
    "replica.fetch.max.bytes": "200",
}


# Little enough for some to wait, and enough to get on: a history lasts some seconds.
QUOTAS = {
    "producer_byte_rate": 150,
    "consumer_byte_rate": 150,
    "request_percentage": 50,
    "controller_mutation_rate": 20,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a seed decides beforehand."""

    seed: int
    load: str
    is_patient: bool
    transaction_version: int
    is_verifying: bool
    """Whether leaders ask the coordinator before they take records of a transaction."""
    has_guest: bool
    """Whether a fourth node joins, gets replicas, and leaves."""
    changes_voters: bool
    """Whether it is a controller too, is made a voter, perhaps in the place of another, and is one no more in the end."""
    has_quotas: bool
    """Whether clients may write and read so little that they are made to wait."""
    steps: tuple[Step, ...]
    is_secured: bool = False
    """Whether everybody logs in, has the rights that ACLs give, and is held to quotas."""


LOADS = ("records", "transactions", "groups")


def plan_of(seed: int, *, is_secured: bool = False) -> Plan:
    random = Random(f"plan of {seed}")
    load = LOADS[seed % len(LOADS)]
    weights = {misfortune.__name__: weight for misfortune, weight in {**WEIGHTS, **OF_LOAD[load]}.items()}
    steps = tuple(
        Step(
            number,
            random.choices(list(weights), list(weights.values()))[0],
            after_s=random.uniform(0.1, 0.7),
            for_s=random.choice([0.1, 0.4, 0.9, 1.5]) * random.uniform(0.5, 1.5),
            seed=random.getrandbits(32),
        )
        for number in range(random.randint(STEPS_MIN, STEPS_MAX))
    )
    return Plan(
        seed,
        load,
        is_patient=random.random() < 0.3,
        transaction_version=random.choice([1, 2]),
        is_verifying=random.random() < 0.3,
        has_guest=seed % 8 == 5,
        changes_voters=seed % 16 == 5,
        has_quotas=seed % 4 == 2,
        steps=steps,
        is_secured=is_secured,
    )


@dataclass(slots=True)
class Outcome:
    """How a history went."""

    plan: Plan
    steps: list[int] = field(default_factory=list)
    """Which of the plan's misfortunes came."""
    trace: list[str] = field(default_factory=list)
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    callbacks: int = 0
    acknowledged: int = 0
    leaders: int = 0
    logins_again: int = 0
    throttled: bool = False
    failure: BaseException | None = None

    def digest(self) -> str:
        return hashlib.md5("\n".join([*self.trace, str(self.callbacks)]).encode(), usedforsecurity=False).hexdigest()


def run_history(seed: int, steps: Sequence[int] | None = None, *, is_secured: bool = False) -> Outcome:
    """Let a cluster live through what its seed decides, then in peace until it has settled.

    Raises what went wrong, with the fewest misfortunes that it takes: their trace, and the command that replays them.
    """
    outcome = attempt(seed, steps, is_secured=is_secured)
    if outcome.failure is not None:
        fewest = shortest(outcome)
        assert fewest.failure is not None
        fewest.failure.add_note(
            "\n".join([*fewest.trace, f"replay: {replay_command(seed, fewest.steps, is_secured=is_secured)}"])
        )
        raise fewest.failure
    return outcome


def attempt(seed: int, steps: Sequence[int] | None = None, *, is_secured: bool = False) -> Outcome:
    """The same, with what went wrong as a part of the outcome."""
    plan = plan_of(seed, is_secured=is_secured)
    chosen = [step for step in plan.steps if steps is None or step.number in steps]
    outcome = Outcome(plan, [step.number for step in chosen])
    began_s = time.process_time()
    # What a history leaves goes in one sweep: the collector would look through it again and again, for a fifth of the time.
    gc.disable()
    try:
        _live_through(plan, chosen, outcome)
        # All that there is since then is young.
        gc.collect(0)
    finally:
        gc.enable()
    outcome.cpu_s = time.process_time() - began_s
    return outcome


def _live_through(plan: Plan, chosen: Sequence[Step], outcome: Outcome) -> None:
    history = _History(plan, outcome)
    # A node in trouble says so, at length.
    logging.disable(logging.CRITICAL)
    try:
        history.cluster.run(lambda _cluster: history.tell(chosen))
    except SimulationFailedError as failed:
        outcome.failure = failed.__cause__ if isinstance(failed.__cause__, BrokenInvariantError) else failed
    except Exception as error:  # noqa: BLE001 - the outcome has it
        outcome.failure = error
    finally:
        logging.disable(logging.NOTSET)
    if outcome.failure is not None:
        outcome.trace.append(f"{history.cluster.loop.time():8.3f} {outcome.failure}")
    outcome.virtual_s = history.cluster.loop.time()
    outcome.callbacks = history.cluster.loop.callbacks_run


def replay_command(seed: int, steps: Sequence[int], *, is_secured: bool = False) -> str:
    how = "--secured " if is_secured else ""
    return f".venv/bin/python -m tests.simulation.replay {seed} {how}--steps {','.join(map(str, steps))}"


def shortest(failed: Outcome) -> Outcome:
    """The history with the fewest misfortunes that still fails, found by leaving out one after another."""
    for number in reversed(failed.steps):
        left = [each for each in failed.steps if each != number]
        outcome = attempt(failed.plan.seed, left, is_secured=failed.plan.is_secured)
        if outcome.failure is not None:
            failed = outcome
    return failed


async def limit_clients(asker: Asker, limits: Mapping[str, float]) -> None:
    """Quotas that all clients share on each broker: they are all the same user."""
    entry = AlterClientQuotasEntryData(
        entity=[EntityData(entity_type="user", entity_name=None)],
        ops=[OpData(key=key, value=value, remove=False) for key, value in limits.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    answer = await asker.call(request, AlterClientQuotasResponse, 1)
    assert [each.error_code for each in answer.entries] == [ErrorCode.NONE]


class _History:
    def __init__(self, plan: Plan, outcome: Outcome) -> None:
        config = {**COMMON, **(PATIENT if plan.is_patient else HASTY)}
        if plan.is_secured:
            config |= SECURED
        config["transaction.partition.verification.enable"] = "true" if plan.is_verifying else "false"
        self.cluster = SimulatedCluster(
            plan.seed,
            GUEST if plan.has_guest else GUEST - 1,
            config=config,
            roles={} if plan.changes_voters else {GUEST: "broker"},
            voters=FIRST,
            levels={"transaction.version": plan.transaction_version},
            on_image=self._heard,
        )
        self._plan = plan
        self._outcome = outcome
        topics = [TOPIC, *INTERNAL]
        self._invariants = ClusterInvariants(self.cluster, topics)
        self._load = self._new_load(plan)
        self._world = Surroundings(self.cluster, self._invariants, self._load, topics, self.note)
        self._growth = Growth(self._world, Random(plan.seed)) if plan.has_guest else None
        self._voters = VoterChanges(self._world, Random(f"voters of {plan.seed}")) if plan.changes_voters else None
        self._undoing: list[asyncio.Task[None]] = []
        self._is_over = False

    def _new_load(self, plan: Plan) -> RecordLoad | TransactionLoad | GroupLoad:
        match plan.load:
            case "records":
                return RecordLoad(self.cluster)
            case "transactions":
                return TransactionLoad(self.cluster)
            case _:
                return GroupLoad(self.cluster, "classic" if plan.seed % 2 else "consumer")

    def _heard(self, image: object) -> None:
        self._invariants.heard(image)  # type: ignore[arg-type]

    def note(self, text: str) -> None:
        self._outcome.trace.append(f"{self.cluster.loop.time():8.3f} {text}")

    async def tell(self, steps: Sequence[Step]) -> None:
        cluster = self.cluster
        cluster.loop.call_later(LOOK_S, self._look)
        await cluster.start(1, 2, 3)
        asker = new_asker(cluster, "node-1")
        assert await asker.create(TOPIC, len(PARTITIONS), replicas=3) == ErrorCode.NONE
        if self._plan.has_quotas:
            # A member of a group that is muted for longer than its session lasts is expelled, again and again.
            limits = {key: value for key, value in QUOTAS.items() if self._plan.load != "groups" or "byte" not in key}
            await limit_clients(asker, limits)
        asker.close()
        await prepare(cluster)
        self._load.start()
        if self._growth is not None:
            self._undoing.append(cluster.loop.create_task(self._growth.join()))
        if self._voters is not None:
            self._undoing.append(cluster.loop.create_task(self._voters.change()))
        for step in steps:
            await asyncio.sleep(step.after_s)
            await self._befall(step)
        await asyncio.sleep(0.3)
        await asyncio.gather(*self._undoing)
        await self._make_peace()
        if self._voters is not None:
            await self._in_peace(self._voters.restore())
        if self._growth is not None:
            await self._in_peace(self._growth.leave())
        self._load.finish()
        await self._in_peace(self._load.end(self._settled))
        self._is_over = True
        self._invariants.look()
        self._outcome.acknowledged = self._load.acknowledged
        self._outcome.leaders = self._invariants.changes
        if self._plan.is_secured:
            self._outcome.logins_again, self._outcome.throttled = logins_again(cluster), throttled(cluster)
        self.note(f"all is well: {self._load.acknowledged} acknowledged, {self._invariants.changes} leaders")

    def _look(self) -> None:
        if not self._is_over:
            self._invariants.look()
            expect(
                self.cluster.loop.callbacks_run < CALLBACKS_MAX, "liveness", "nodes keep each other busy without an end"
            )
            self.cluster.loop.call_later(LOOK_S, self._look)

    async def _befall(self, step: Step) -> None:
        undo = await MISFORTUNES[step.name](self._world, Random(step.seed))
        self._invariants.look()
        if undo is not None:
            self._undoing.append(self.cluster.loop.create_task(self._undo(step, undo)))

    async def _undo(self, step: Step, undo: Undo) -> None:
        await asyncio.sleep(step.for_s)
        self.note(f"{step.name} is over")
        undone = undo()
        if undone is not None:
            await undone

    async def _make_peace(self) -> None:
        """The end of all faults."""
        self.note("peace")
        self.cluster.network.heal()
        for machine in self.cluster.machines.values():
            machine.disk.heal()
            machine.resume()
            if machine.has_failed:
                await machine.kill()
            self._world.begin(machine)

    async def _settled(self) -> dict[TopicPartition, Committed]:
        await self.cluster.until(
            self._is_settled, "all replicas to be in sync and equal", within_s=SETTLE_S_MAX, look_s=LOOK_S
        )
        self._invariants.look()
        return self._invariants.partitions

    async def _in_peace(self, awaited: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(PEACE_S_MAX):
                await awaited
        except BrokenInvariantError:
            raise
        except (AssertionError, TimeoutError, RequestFailedError) as error:
            raise BrokenInvariantError(f"liveness: {str(error) or 'clients do not get on'}") from error

    def _is_settled(self) -> bool:
        present = [machine for machine in self.cluster.machines.values() if machine.number not in self._world.absent]
        if any(machine.has_failed or not machine.is_up for machine in present):
            # A full disk that was noticed only now.
            self._undoing.append(self.cluster.loop.create_task(self._make_peace()))
            return False
        for where in self._invariants.partitions:
            found = self._invariants.image.topic(TopicName(where.topic))
            partition = None if found is None else found.partitions[PartitionIndex(where.partition)]
            ends = self.cluster.log_end_offsets(where.topic, where.partition)
            is_equal = len({*ends.values()}) == 1 and all(end == committed for end, committed in ends.values())
            if (
                partition is None
                or not is_equal
                or not sorted(partition.isr) == sorted(partition.replicas) == sorted(ends)
            ):
                return False
        return all(machine.node is not None for machine in present)


__all__ = ["BrokenInvariantError", "Outcome", "Plan", "attempt", "plan_of", "replay_command", "run_history", "shortest"]
