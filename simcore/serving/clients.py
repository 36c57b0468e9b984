"""Clients of the service: they arrive at a replica, and may give up."""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.admission import drop_waiting, enqueue
from simcore.serving.state import DECODING, PREFILLING, WAITING, State


@compiled
def route(state: State) -> int:
    """The replica of an arriving request: in turn, or the one with the least on its hands."""
    if state.limits.routes_by_load:
        chosen = 0
        for index in range(1, len(state.replicas)):
            load = state.replicas[index].outstanding_tokens
            if load < state.replicas[chosen].outstanding_tokens:
                chosen = index
        return chosen
    index = int(state.cursor.next_replica)
    state.cursor.next_replica = (index + 1) % len(state.replicas)
    return index


@compiled_apart
def arrive(state: State) -> int:
    """The next request in order of arrival comes in; returns its replica."""
    request = int(state.cursor.next_arrival)
    state.cursor.next_arrival += 1
    index = route(state)
    enqueue(state, index, request)
    return index


@compiled_apart
def give_up(state: State) -> None:
    """The client of the request whose patience ends next gives up, if it still waits for it.

    Requests give up in order of arrival. A waiting request leaves at once; one inside a step is
    marked, and its blocks return when the step commits.
    """
    request = int(state.cursor.next_deadline)
    state.cursor.next_deadline += 1
    row = state.requests[request]
    if row.state == WAITING:
        drop_waiting(state, request)
    elif row.state in (PREFILLING, DECODING):
        row.is_cancelled = 1
