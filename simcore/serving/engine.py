"""The step kernel: begin a step, commit it, or run many up to the next outside event.

    begin   schedule, reserve, propose, price the step -> it will end at step_end_s
    commit  apply what was accepted, emit, give blocks back, finish requests

`run_until` repeats the two by itself for all replicas. At one moment commits come first, then
failures, cancellations, arrivals, and the steps that begin; the one-step-at-a-time mode
(service.py) keeps this order.
"""

import math

from simcore.compiled import compiled, compiled_entry, lacks_machine_code
from simcore.serving.begin import begin, has_work
from simcore.serving.clients import arrive, give_up, next_arrival_s, next_deadline_s
from simcore.serving.commit import commit
from simcore.serving.faults import meet_faults, next_fault_s
from simcore.serving.state import State

# Why run_until came back.
ALL_ENDED, TIME_REACHED, RECORDS_FULL = range(3)


@compiled_entry
def run_until(state: State, limit_s: float) -> int:
    """Run every replica through all events up to and including `limit_s`.

    Returns ALL_ENDED, TIME_REACHED, or RECORDS_FULL when the step records need more room.
    """
    has_faults = len(state.faults) > 0 or state.limits.mean_up_s > 0.0
    while state.cursor[0].num_ended < len(state.requests):
        if records_full(state):
            return RECORDS_FULL
        now_s = _next_event_s(state, has_faults)
        if now_s > limit_s or math.isinf(now_s):
            return TIME_REACHED
        for index in range(len(state.replicas)):
            if state.replicas[index].step_end_s == now_s:
                commit(state, index)
        if has_faults:
            meet_faults(state, now_s)
        _meet_clients(state, now_s)
        for index in range(len(state.replicas)):
            if state.replicas[index].is_busy == 0 and has_work(state, index):
                begin(state, index, now_s)
    return ALL_ENDED


@compiled
def _next_event_s(state: State, has_faults: bool) -> float:
    now_s = min(next_arrival_s(state), next_deadline_s(state))
    for index in range(len(state.replicas)):
        now_s = min(now_s, state.replicas[index].step_end_s)
    return min(now_s, next_fault_s(state)) if has_faults else now_s


@compiled
def _meet_clients(state: State, now_s: float) -> None:
    """Those who give up by now, then those who arrive."""
    while next_deadline_s(state) <= now_s:
        give_up(state)
    while next_arrival_s(state) <= now_s:
        arrive(state)


@compiled
def records_full(state: State) -> bool:
    """Whether one more event might not find room for its records."""
    # Each replica may begin one step and change its draft mode twice: restarted, and by policy.
    room = len(state.replicas)
    return bool(
        state.cursor[0].num_steps + room > len(state.steps)
        or state.cursor[0].num_changes + 2 * room > len(state.changes)
    )


def needs_compilation() -> bool:
    """Whether the kernel has no machine code on disk yet, so that its first use takes seconds."""
    return lacks_machine_code(run_until)
