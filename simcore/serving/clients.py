"""Clients of the service: they arrive at a replica, and may give up."""

import math

from simcore.compiled import compiled, compiled_apart
from simcore.serving.admission import drop_waiting, enqueue
from simcore.serving.ending import pop_due
from simcore.serving.preemption import drop_running
from simcore.serving.state import (
    BY_SESSION,
    DECODING,
    IN_TURN,
    NONE,
    PREFILLING,
    WAITING,
    State,
)


@compiled
def route(state: State, request: int) -> int:
    """The replica of a request: in turn, the least loaded, or where its session was before.

    Replicas that are down are passed over; where all are, it waits for the first to come back.
    """
    if state.limits.routing == BY_SESSION:
        home = int(state.requests[request].replica)
        if home != NONE and state.replicas[home].is_down == 0:
            return home
    if state.limits.routing == IN_TURN:
        return _next_in_turn(state)
    return _least_loaded(state)


@compiled
def _next_in_turn(state: State) -> int:
    count = len(state.replicas)
    for _ in range(count):
        index = int(state.cursor[0].next_replica)
        state.cursor[0].next_replica = (index + 1) % count
        if state.replicas[index].is_down == 0:
            return index
    return _first_back(state)


@compiled
def _least_loaded(state: State) -> int:
    chosen = NONE
    for index in range(len(state.replicas)):
        replica = state.replicas[index]
        if replica.is_down == 0 and (
            chosen == NONE or replica.outstanding_tokens < state.replicas[chosen].outstanding_tokens
        ):
            chosen = index
    return chosen if chosen != NONE else _first_back(state)


@compiled_apart
def _first_back(state: State) -> int:
    chosen = 0
    for index in range(1, len(state.replicas)):
        if state.replicas[index].fault_s < state.replicas[chosen].fault_s:
            chosen = index
    return chosen


@compiled_apart
def next_arrival_s(state: State) -> float:
    """When the next request arrives; inf: none is on its way."""
    cursor = state.cursor[0]
    open_s = due_s = math.inf
    if cursor.next_arrival < state.limits.num_open:
        open_s = float(state.requests[cursor.next_arrival].arrival_s)
    if cursor.num_due > 0:
        due_s = float(state.requests[state.due[0]].arrival_s)
    return min(open_s, due_s)


@compiled_apart
def arrive(state: State) -> int:
    """The next request comes in; returns its replica."""
    cursor = state.cursor[0]
    request = int(cursor.next_arrival)
    is_open = request < state.limits.num_open
    if cursor.num_due > 0 and (
        not is_open or state.requests[state.due[0]].arrival_s < state.requests[request].arrival_s
    ):
        request = pop_due(state)
    else:
        cursor.next_arrival += 1
    state.arrived[cursor.num_arrived] = request
    state.requests[request].is_counted = cursor.num_arrived >= state.limits.num_uncounted
    cursor.num_arrived += 1
    index = route(state, request)
    enqueue(state, index, request)
    return index


@compiled_apart
def next_deadline_s(state: State) -> float:
    """When the next client gives up; passes over those whose request has ended."""
    cursor = state.cursor[0]
    if math.isinf(state.limits.patience_s):
        return math.inf
    while cursor.next_deadline < cursor.num_arrived:
        row = state.requests[state.arrived[cursor.next_deadline]]
        if row.state in (WAITING, PREFILLING, DECODING):
            return float(row.gives_up_s)
        cursor.next_deadline += 1
    return math.inf


@compiled_apart
def give_up(state: State) -> None:
    """The client of the request whose patience ends next gives up, if it still waits for it.

    Requests give up in order of arrival. A waiting request leaves at once, and so does a running
    one between two steps; inside a step it is marked, and its blocks return at the commit.
    """
    request = int(state.arrived[state.cursor[0].next_deadline])
    state.cursor[0].next_deadline += 1
    row = state.requests[request]
    if row.state == WAITING:
        drop_waiting(state, request, float(row.gives_up_s))
    elif row.state in (PREFILLING, DECODING):
        if state.replicas[row.replica].is_busy:
            row.is_cancelled = 1
        else:
            drop_running(state, request, float(row.gives_up_s))
