"""The waiting lists of a replica: one for each priority class, in order of arrival."""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.state import NONE, WAITING, State


@compiled_apart
def append_waiting(state: State, index: int, request: int) -> None:
    """To the end of its class's list."""
    row = state.requests[request]
    queue = state.queues[index, row.level]
    row.state = WAITING
    row.replica = index
    row.next_waiting = NONE
    if queue.head == NONE:
        queue.head = request
    else:
        state.requests[queue.tail].next_waiting = request
    queue.tail = request
    state.replicas[index].num_waiting += 1


@compiled_apart
def put_back(state: State, index: int, request: int) -> None:
    """A preempted request to the head of its class's list: it came before all who wait there."""
    row = state.requests[request]
    queue = state.queues[index, row.level]
    row.state = WAITING
    row.next_waiting = queue.head
    queue.head = request
    if row.next_waiting == NONE:
        queue.tail = request
    state.replicas[index].num_waiting += 1


@compiled
def first_waiting(state: State, index: int) -> int:
    """Who is next: first of the most urgent class; NONE where nobody waits.

    Whoever gave up while waiting is still in the list and passed over here.
    """
    for level in range(state.queues.shape[1]):
        queue = state.queues[index, level]
        while queue.head != NONE:
            row = state.requests[queue.head]
            if row.state == WAITING and row.replica == index:
                return int(queue.head)
            queue.head = row.next_waiting
    return NONE


@compiled
def take_first(state: State, index: int, request: int) -> None:
    """`request`, which first_waiting named, leaves the list."""
    row = state.requests[request]
    state.queues[index, row.level].head = row.next_waiting
    state.replicas[index].num_waiting -= 1
