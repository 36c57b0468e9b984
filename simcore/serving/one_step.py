"""The kernel one event at a time: what the bulk kernel calls by itself, for callers in Python.

Functions of their own, so that a bulk run need not compile a way in from Python to each of them.
"""

from simcore.compiled import compiled_entry, lacks_machine_code
from simcore.serving import begin as begin_module
from simcore.serving import clients, engine, faults, policy
from simcore.serving import commit as commit_module
from simcore.serving.state import State

_begin, _has_work, _commit = begin_module.begin, begin_module.has_work, commit_module.commit
_plan, _launch = begin_module.plan, begin_module.launch
_arrive, _give_up = clients.arrive, clients.give_up
_next_arrival_s, _next_deadline_s = clients.next_arrival_s, clients.next_deadline_s
_meet_faults, _next_fault_s, _plan_fault = (
    faults.meet_faults,
    faults.next_fault_s,
    faults.plan_fault,
)
_records_full, _set_mode = engine.records_full, policy.set_mode


def needs_compilation() -> bool:
    """Whether the first step of all takes seconds longer, for machine code to be made."""
    return lacks_machine_code(commit)


@compiled_entry
def begin(state: State, index: int, now_s: float) -> None:
    """Begin a step of a replica."""
    _begin(state, index, now_s)


@compiled_entry
def plan(state: State, index: int, now_s: float) -> bool:
    """The first half of `begin`, for an executor: False where nothing runs."""
    return _plan(state, index, now_s)


@compiled_entry
def launch(state: State, index: int, draws: bool) -> None:
    """The second half: draw the cycles, or take those that stand in the rows, and price them."""
    _launch(state, index, draws)


@compiled_entry
def has_work(state: State, index: int) -> bool:
    """Whether an idle replica could begin a step."""
    return _has_work(state, index)


@compiled_entry
def commit(state: State, index: int) -> None:
    """End the step under way."""
    _commit(state, index)


@compiled_entry
def arrive(state: State) -> int:
    """The next request comes in."""
    return _arrive(state)


@compiled_entry
def give_up(state: State) -> None:
    """The client whose patience ends next gives up."""
    _give_up(state)


@compiled_entry
def next_times_s(state: State) -> tuple[float, float, float]:
    """When the next arrival, end of patience and failure or return are; inf: never."""
    return _next_arrival_s(state), _next_deadline_s(state), _next_fault_s(state)


@compiled_entry
def meet_faults(state: State, now_s: float) -> None:
    """Every replica whose time has come fails, or comes back."""
    _meet_faults(state, now_s)


@compiled_entry
def plan_fault(state: State, index: int, now_s: float) -> None:
    """Set the time of a running replica's next failure."""
    _plan_fault(state, index, now_s)


@compiled_entry
def records_full(state: State) -> bool:
    """Whether one more event might not find room for its records."""
    return _records_full(state)


@compiled_entry
def set_mode(state: State, index: int, now_s: float, chosen: int, reason: int) -> None:
    """Put a draft mode in force and log it."""
    _set_mode(state, index, now_s, chosen, reason)
