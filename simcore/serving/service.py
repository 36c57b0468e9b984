"""The service in time: SimPy owns the clock and the outside world, the kernel owns the engine.

`run` lets the kernel do many steps by itself, up to the next outside event; `run_stepwise` makes
every begin, commit and arrival a SimPy event, as a real engine or a policy in Python needs it.
Both give the same records.
"""

import heapq
from collections.abc import Callable, Generator
from enum import IntEnum
from typing import Any

import numpy as np
import simpy

from simcore.records import Records
from simcore.serving.begin import begin, has_work
from simcore.serving.caller_policy import CallerPolicy, ask_policy
from simcore.serving.clients import arrive, give_up
from simcore.serving.commit import commit
from simcore.serving.engine import RECORDS_FULL, records_full, run_until
from simcore.serving.state import STEP_DTYPE, State

STEPS_PER_CHUNK = 200_000

Progress = Callable[[int, int], None]  # (requests ended, requests in all)


class Priority(IntEnum):
    """Order of events at one moment."""

    COMMIT = 0  # a step's tokens and blocks are there before anything else looks
    CANCEL = 1
    ARRIVAL = 2
    BEGIN = 3  # a step that begins sees everyone who has arrived by then


class Clock(simpy.Environment):
    """SimPy's environment with events at absolute times.

    SimPy schedules after a delay; now + (t - now) may differ from t in the last bit, and the
    order of simultaneous events would hang on rounding.
    """

    def at(self, time_s: float, priority: Priority) -> simpy.Event:
        """An event that happens at `time_s`, in the order of its priority."""
        event = simpy.Event(self)
        event._ok = True
        event._value = None
        entry: Any = (time_s, priority, next(self._eid), event)
        heapq.heappush(self._queue, entry)
        return event


class Service:
    """One simulated service: replicas, their requests, and the records they leave."""

    def __init__(
        self,
        state: State,
        progress: Progress | None = None,
        policy: CallerPolicy | None = None,
    ) -> None:
        self._clock = Clock()
        self._state = state
        self._progress = progress
        self._policy = policy
        self._chunks: list[Records] = []
        self._changes: list[Records] = []

    def run(self) -> Records:
        """Run to the end in the bulk kernel; returns the step records in order of time."""
        self._clock.process(self._bulk())
        self._clock.run()
        return self._take_steps()

    def run_stepwise(self) -> Records:
        """Run to the end one event at a time; returns the same records as `run`."""
        self._wake = [self._clock.event() for _ in self._state.replicas]
        self._clock.process(self._arrivals())
        self._clock.process(self._patience())
        for index in range(len(self._state.replicas)):
            self._clock.process(self._replica(index))
        self._clock.run()
        return self._take_steps()

    @property
    def changes(self) -> Records:
        """Draft lengths put in force, in order of time; complete once the run has ended."""
        return np.concatenate(self._changes)

    def _bulk(self) -> Generator[simpy.Event, None, None]:
        while True:
            # The kernel may run until something outside happens; alone, until the end.
            status = run_until(self._state, self._clock.peek())
            self._report()
            if status != RECORDS_FULL:
                return
            self._flush_steps()
            yield self._clock.at(self._clock.now, Priority.BEGIN)

    def _arrivals(self) -> Generator[simpy.Event, None, None]:
        for arrival_s in self._state.requests["arrival_s"]:
            yield self._clock.at(float(arrival_s), Priority.ARRIVAL)
            index = arrive(self._state)
            if not self._wake[index].triggered:
                self._wake[index].succeed()

    def _patience(self) -> Generator[simpy.Event, None, None]:
        for gives_up_s in self._state.requests["gives_up_s"]:
            if not np.isfinite(gives_up_s):
                return
            yield self._clock.at(float(gives_up_s), Priority.CANCEL)
            give_up(self._state)

    def _replica(self, index: int) -> Generator[simpy.Event, None, None]:
        replica = self._state.replicas[index]
        last = (0, 0)
        while True:
            if not has_work(self._state, index):
                self._wake[index] = self._clock.event()
                yield self._wake[index]
            yield self._clock.at(self._clock.now, Priority.BEGIN)
            if records_full(self._state):
                self._flush_steps()
            if self._policy is not None:
                ask_policy(self._policy, self._state, index, self._clock.now, last)
            begin(self._state, index, self._clock.now)
            while replica["is_busy"]:
                yield self._clock.at(float(replica["step_end_s"]), Priority.COMMIT)
                commit(self._state, index)
                step = self._state.steps[replica["step_row"]]
                last = (int(step["proposed_tokens"]), int(step["accepted_tokens"]))
            self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(int(self._state.cursor.num_ended), len(self._state.requests))

    def _flush_steps(self) -> None:
        """Move finished step records out, without copying them where none is under way.

        The kernel goes on in a new buffer; steps under way begin it.
        """
        state = self._state
        count = int(state.cursor.num_steps)
        busy = np.flatnonzero(state.replicas["is_busy"])
        open_rows = state.replicas["step_row"][busy]
        fresh = new_step_records(len(state.replicas))
        fresh[: len(busy)] = state.steps[open_rows]
        finished = state.steps[:count]
        if len(busy):
            finished = np.delete(finished, open_rows)
        self._chunks.append(finished)
        state.replicas["step_row"][busy] = np.arange(len(busy))
        state.cursor.num_steps = len(busy)
        self._changes.append(state.changes[: state.cursor.num_changes].copy())
        state.cursor.num_changes = 0
        self._state = state._replace(steps=fresh)

    def _take_steps(self) -> Records:
        self._flush_steps()
        steps = self._chunks[0] if len(self._chunks) == 1 else np.concatenate(self._chunks)
        if len(self._state.replicas) == 1:
            return steps  # one replica's steps begin in the order they are recorded
        return steps[np.lexsort((steps["replica"], steps["begin_s"]))]


def new_step_records(num_replicas: int) -> Records:
    """Room for the records of one chunk of steps."""
    return np.empty(STEPS_PER_CHUNK + 2 * num_replicas, dtype=STEP_DTYPE)
