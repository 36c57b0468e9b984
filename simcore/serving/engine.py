"""The step kernel: begin a step, commit it, or run many up to the next outside event.

    begin   schedule, reserve, propose, price the step -> it will end at step_end_s
    commit  apply what was accepted, emit, give blocks back, finish requests

`run_until` repeats the two by itself for all replicas. At one moment commits come first, then
cancellations, arrivals, and the steps that begin; the one-step-at-a-time mode (service.py) keeps
this order.
"""

import math
from pathlib import Path

from simcore.compiled import compiled, compiled_apart
from simcore.serving.begin import begin, has_work
from simcore.serving.clients import arrive, give_up
from simcore.serving.commit import commit
from simcore.serving.state import DECODING, PREFILLING, WAITING, State

# Why run_until came back.
ALL_ENDED, TIME_REACHED, RECORDS_FULL = range(3)


@compiled_apart
def run_until(state: State, limit_s: float) -> int:
    """Run every replica through all events up to and including `limit_s`.

    Returns ALL_ENDED, TIME_REACHED, or RECORDS_FULL when the step records need more room.
    """
    while True:
        if records_full(state):
            return RECORDS_FULL
        now_s = _next_event_s(state)
        if math.isinf(now_s):
            return ALL_ENDED
        if now_s > limit_s:
            return TIME_REACHED
        for index in range(len(state.replicas)):
            if state.replicas[index].step_end_s == now_s:
                commit(state, index)
        _meet_clients(state, now_s)
        for index in range(len(state.replicas)):
            if state.replicas[index].is_busy == 0 and has_work(state, index):
                begin(state, index, now_s)


@compiled
def _meet_clients(state: State, now_s: float) -> None:
    """Those who give up by now, then those who arrive."""
    while _next_deadline_s(state) <= now_s:
        give_up(state)
    while _next_arrival_s(state) <= now_s:
        arrive(state)


@compiled
def records_full(state: State) -> bool:
    room = len(state.replicas)  # each may begin one step, and change its draft length, at a time
    return bool(
        state.cursor.num_steps + room > len(state.steps)
        or state.cursor.num_changes + room > len(state.changes)
    )


@compiled
def _next_arrival_s(state: State) -> float:
    arrival = state.cursor.next_arrival
    return float(state.requests[arrival].arrival_s) if arrival < len(state.requests) else math.inf


@compiled
def _next_deadline_s(state: State) -> float:
    """When the next client gives up; passes over those whose request has ended."""
    cursor = state.cursor
    while cursor.next_deadline < cursor.next_arrival:
        row = state.requests[cursor.next_deadline]
        if row.state in (WAITING, PREFILLING, DECODING):
            return float(row.gives_up_s)
        cursor.next_deadline += 1
    return math.inf


@compiled
def _next_event_s(state: State) -> float:
    now_s = min(_next_arrival_s(state), _next_deadline_s(state))
    for index in range(len(state.replicas)):
        now_s = min(now_s, state.replicas[index].step_end_s)
    return now_s


def needs_compilation() -> bool:
    """Whether the kernel has no machine code on disk yet, so that its first use takes seconds."""
    folder = Path(run_until.stats.cache_path)  # type: ignore[attr-defined]  # numba adds it
    return not any(folder.glob("engine.run_until-*.nbi"))
