"""The service in time: SimPy owns the clock and the outside world, the kernel owns the engine.

`run` lets the kernel do many steps by itself, up to the next outside event; `run_stepwise` makes
every begin, commit and arrival a SimPy event, as a real engine or a policy in Python needs it.
Both give the same records.
"""

import heapq
import math
from collections.abc import Callable, Generator
from enum import IntEnum
from typing import Any

import numpy as np
import simpy

from simcore.records import Records
from simcore.serving.caller_policy import CallerPolicy, ask_policy
from simcore.serving.cycle_log import CycleLog
from simcore.serving.engine import ALL_ENDED, TIME_REACHED, run_until
from simcore.serving.executor import Executor, execute
from simcore.serving.one_step import (
    arrive,
    begin,
    commit,
    give_up,
    has_work,
    meet_faults,
    next_times_s,
    records_full,
)
from simcore.serving.state import STEP_DTYPE, State
from simcore.serving.step_totals import StepTotals

STEPS_PER_CHUNK = 200_000

Progress = Callable[[int, int], None]  # (requests ended, requests in all)


class Priority(IntEnum):
    """Order of events at one moment."""

    COMMIT = 0  # a step's tokens and blocks are there before anything else looks
    FAULT = 1
    CANCEL = 2
    ARRIVAL = 3
    BEGIN = 4  # a step that begins sees everyone who has arrived by then


REPLICA_ORDER = 2.0**-16  # of a priority: replicas one after the other, all before the next


class Clock(simpy.Environment):
    """SimPy's environment with events at absolute times.

    SimPy schedules after a delay; now + (t - now) may differ from t in the last bit, and the
    order of simultaneous events would hang on rounding.
    """

    def at(self, time_s: float, priority: Priority, replica: int = 0) -> simpy.Event:
        """An event that happens at `time_s`, in the order of its priority, then of replicas."""
        event = simpy.Event(self)
        event._ok = True
        event._value = None
        entry: Any = (time_s, priority + replica * REPLICA_ORDER, next(self._eid), event)
        heapq.heappush(self._queue, entry)
        return event


class Service:
    """One simulated service: replicas, their requests, and the records they leave."""

    def __init__(
        self,
        state: State,
        *,
        progress: Progress | None = None,
        policy: CallerPolicy | None = None,
        executor: Executor | None = None,
        keeps_steps: bool = True,
        records_cycles: bool = False,
    ) -> None:
        self._clock = Clock()
        self._state = state
        self._progress = progress
        self._policy = policy
        self._executor = executor
        self._keeps_steps = keeps_steps
        self._cycles = CycleLog() if records_cycles else None
        self._chunks: list[Records] = []
        self._changes: list[Records] = []
        self._totals = StepTotals()

    def run(self) -> None:
        """Run to the end in the bulk kernel."""
        self._clock.process(self._bulk())
        self._clock.run()
        self._flush_steps()

    def run_stepwise(self) -> None:
        """Run to the end one event at a time; leaves the same records as `run`."""
        count = len(self._state.replicas)
        self._wake = [self._clock.event() for _ in range(count)]
        self._work = [self._clock.process(self._replica(index)) for index in range(count)]
        self._expected: dict[Priority, float] = {}
        self._expect_all()
        self._clock.run(until=self._all_ended())
        self._flush_steps()

    @property
    def steps(self) -> Records:
        """Step records in order of time; empty where they are not kept."""
        if not self._chunks:
            return new_step_records(0)[:0]
        steps = self._chunks[0] if len(self._chunks) == 1 else np.concatenate(self._chunks)
        if len(self._state.replicas) == 1:
            return steps  # one replica's steps begin in the order they are recorded
        return steps[np.lexsort((steps["replica"], steps["begin_s"]))]

    @property
    def totals(self) -> StepTotals:
        """Sums over the steps that were not kept."""
        return self._totals

    @property
    def changes(self) -> Records:
        """Draft modes put in force, in order of time; complete once the run has ended."""
        changes = np.concatenate(self._changes)
        return changes[np.lexsort((changes["replica"], changes["time_s"]))]

    @property
    def cycles(self) -> Records | None:
        """Single cycles, where they were asked for."""
        return self._cycles.records() if self._cycles is not None else None

    def _bulk(self) -> Generator[simpy.Event, None, None]:
        while True:
            # The kernel may run until something outside happens; alone, until the end.
            status = run_until(self._state, self._clock.peek())
            self._report()
            if status == ALL_ENDED:
                return
            if status == TIME_REACHED:
                raise RuntimeError("requests are left that nothing will ever serve")
            self._flush_steps()
            yield self._clock.at(self._clock.now, Priority.BEGIN)

    def _all_ended(self) -> simpy.Event:
        self._end = self._clock.event()
        return self._end

    def _expect_all(self) -> None:
        """Whatever happened may bring the next arrival, patience or failure nearer."""
        state = self._state
        if state.cursor[0].num_ended == len(state.requests) and not self._end.triggered:
            self._end.succeed()
        arrival_s, deadline_s, fault_s = next_times_s(state)
        self._expect(Priority.ARRIVAL, arrival_s, self._arrivals)
        self._expect(Priority.CANCEL, deadline_s, self._patience)
        self._expect(Priority.FAULT, fault_s, self._faults)

    def _expect(self, priority: Priority, time_s: float, happen: Callable[[float], None]) -> None:
        """Let `happen` run at `time_s`, unless it is going to by then."""
        if time_s < self._expected.get(priority, math.inf):
            self._expected[priority] = time_s
            self._clock.process(self._await(priority, time_s, happen))

    def _await(
        self, priority: Priority, time_s: float, happen: Callable[[float], None]
    ) -> Generator[simpy.Event, None, None]:
        yield self._clock.at(time_s, priority)
        if self._expected.get(priority) == time_s:
            del self._expected[priority]
        happen(time_s)
        self._expect_all()
        self._wake_all()

    def _arrivals(self, now_s: float) -> None:
        while next_times_s(self._state)[0] <= now_s:
            arrive(self._state)

    def _patience(self, now_s: float) -> None:
        while next_times_s(self._state)[1] <= now_s:
            give_up(self._state)

    def _faults(self, now_s: float) -> None:
        was_busy = self._state.replicas["is_busy"].copy()
        meet_faults(self._state, now_s)
        for index in np.flatnonzero(was_busy != self._state.replicas["is_busy"]):
            self._work[index].interrupt()  # its step will not commit
            if self._executor is not None:
                self._executor.settle(self._state, int(index), is_committed=False)

    def _wake_all(self) -> None:
        for index, event in enumerate(self._wake):
            if has_work(self._state, index) and not event.triggered:
                event.succeed()

    def _replica(self, index: int) -> Generator[simpy.Event, None, None]:
        replica = self._state.replicas[index]
        last = (0, 0)
        while True:
            if not has_work(self._state, index):
                self._wake[index] = self._clock.event()
                yield self._wake[index]
            yield self._clock.at(self._clock.now, Priority.BEGIN, index)
            if not has_work(self._state, index):
                continue
            if records_full(self._state):
                self._flush_steps()
            if self._policy is not None:
                ask_policy(self._policy, self._state, index, self._clock.now, last)
            self._begin(index)
            self._expect_all()
            if replica["is_busy"]:
                try:
                    yield self._clock.at(float(replica["step_end_s"]), Priority.COMMIT, index)
                except simpy.Interrupt:
                    last = (0, 0)
                    continue
                last = self._commit(index)
            self._report()

    def _begin(self, index: int) -> None:
        if self._executor is None:
            begin(self._state, index, self._clock.now)
        else:
            execute(self._executor, self._state, index, self._clock.now)

    def _commit(self, index: int) -> tuple[int, int]:
        """End a step; (proposed, accepted) drafts of it."""
        state = self._state
        if self._cycles is not None:
            self._cycles.add(state, index)
        commit(state, index)
        if self._executor is not None:
            self._executor.settle(state, index, is_committed=True)
        self._expect_all()
        step = state.steps[state.replicas[index]["step_row"]]
        return int(step["proposed_tokens"]), int(step["accepted_tokens"])

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(int(self._state.cursor[0].num_ended), len(self._state.requests))

    def _flush_steps(self) -> None:
        """Move finished step records out, without copying them where none is under way.

        The kernel goes on in a new buffer; steps under way begin it.
        """
        state = self._state
        count = int(state.cursor[0].num_steps)
        busy = np.flatnonzero(state.replicas["is_busy"])
        open_rows = state.replicas["step_row"][busy]
        under_way = state.steps[open_rows].copy()
        finished = state.steps[:count]
        if len(busy):
            finished = np.delete(finished, open_rows)
        if not self._keeps_steps:
            self._totals = self._totals.with_steps(finished)
        else:
            self._chunks.append(finished)
            self._state = state = state._replace(steps=new_step_records(len(state.replicas)))
        state.steps[: len(busy)] = under_way
        state.replicas["step_row"][busy] = np.arange(len(busy))
        state.cursor[0].num_steps = len(busy)
        self._changes.append(state.changes[: state.cursor[0].num_changes].copy())
        state.cursor[0].num_changes = 0


def new_step_records(num_replicas: int) -> Records:
    """Room for the records of one chunk of steps."""
    return np.empty(STEPS_PER_CHUNK + 2 * num_replicas, dtype=STEP_DTYPE)
