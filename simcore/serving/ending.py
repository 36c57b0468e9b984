"""The end of a request, and what it means for whoever waits for it."""

import numpy as np

from simcore.compiled import compiled, compiled_apart
from simcore.serving.state import (
    CANCELLED,
    FINISHED,
    NONE,
    OUTGREW_MEMORY,
    SESSION_ENDED,
    State,
)


@compiled
def end_request(state: State, request: int, final: int, reason: int, end_s: float) -> None:
    """A request ends in its final state; whoever waited for it may ask on."""
    row = state.requests[request]
    row.state = final
    row.reason = reason
    row.finish_s = end_s
    state.cursor[0].num_ended += 1
    if state.limits.is_closed_loop:
        _ask_on(state, request, end_s)
    elif row.follower != NONE:
        if final == FINISHED:
            _call_follower(state, request, end_s)
        else:
            _end_session(state, request, end_s)


@compiled_apart
def _ask_on(state: State, request: int, end_s: float) -> None:
    """A client asks the next of the requests that nobody has asked yet, if one is left.

    Shared by all clients, so that there are as many of them until the last requests.
    """
    follower = int(state.limits.num_open + state.cursor[0].num_asked)
    if follower < len(state.requests):
        state.cursor[0].num_asked += 1
        state.requests[request].follower = follower
        state.requests[follower].session = state.requests[request].session
        _call_follower(state, request, end_s)


@compiled_apart
def _call_follower(state: State, request: int, end_s: float) -> None:
    """The request after this one is on its way."""
    row = state.requests[request]
    follower = int(row.follower)
    due_s = end_s + state.requests[follower].think_s
    if row.reason == OUTGREW_MEMORY:  # while a step begins: what arrives now comes after it
        due_s = max(due_s, np.nextafter(end_s, np.inf))
    state.requests[follower].arrival_s = due_s
    state.requests[follower].gives_up_s = due_s + state.limits.patience_s
    state.requests[follower].replica = row.replica
    _push(state, follower)


@compiled_apart
def _end_session(state: State, request: int, end_s: float) -> None:
    """Nobody asks on after an answer that did not come."""
    follower = int(state.requests[request].follower)
    while follower != NONE:
        row = state.requests[follower]
        row.arrival_s = end_s
        row.finish_s = end_s
        row.state = CANCELLED
        row.reason = SESSION_ENDED
        state.cursor[0].num_ended += 1
        follower = int(row.follower)


@compiled
def _comes_before(state: State, one: int, other: int) -> bool:
    first_s, second_s = state.requests[one].arrival_s, state.requests[other].arrival_s
    return bool(first_s < second_s or (first_s == second_s and one < other))


@compiled
def _push(state: State, request: int) -> None:
    """Into the heap of those on their way, earliest at its root."""
    due, place = state.due, int(state.cursor[0].num_due)
    state.cursor[0].num_due += 1
    while place > 0:
        parent = (place - 1) // 2
        if not _comes_before(state, request, due[parent]):
            break
        due[place] = due[parent]
        place = parent
    due[place] = request


@compiled_apart
def pop_due(state: State) -> int:
    """Take the earliest of those on their way out of the heap."""
    due = state.due
    earliest = int(due[0])
    state.cursor[0].num_due -= 1
    count = int(state.cursor[0].num_due)
    last, place = int(due[count]), 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and _comes_before(state, due[child + 1], due[child]):
            child += 1
        if not _comes_before(state, due[child], last):
            break
        due[place] = due[child]
        place = child
    due[place] = last
    return earliest
