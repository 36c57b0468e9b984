"""Replicas fail and come back: a step under way is lost at once, its memory with it."""

import math

from simcore.acceptance.counter_random import STREAM_FAULT, uniform
from simcore.compiled import compiled, compiled_apart
from simcore.serving.admission import refusal
from simcore.serving.clients import route
from simcore.serving.ending import end_request
from simcore.serving.policy import RESTARTED, set_mode
from simcore.serving.preemption import take_out
from simcore.serving.prefix_cache import forget_all
from simcore.serving.state import (
    CANCELLED,
    FAILED,
    GAVE_UP,
    NONE,
    NOTHING,
    REPLICA_FAILED,
    State,
)
from simcore.serving.waiting import append_waiting, first_waiting, take_first


@compiled_apart
def next_fault_s(state: State) -> float:
    """When the next replica fails or comes back; inf: none does."""
    soonest_s = math.inf
    for index in range(len(state.replicas)):
        soonest_s = min(soonest_s, state.replicas[index].fault_s)
    return soonest_s


@compiled_apart
def meet_faults(state: State, now_s: float) -> None:
    """Every replica whose time has come fails, or comes back."""
    for index in range(len(state.replicas)):
        if state.replicas[index].fault_s <= now_s:
            if state.replicas[index].is_down:
                _recover(state, index, now_s)
            else:
                _break_down(state, index, now_s)


@compiled_apart
def plan_fault(state: State, index: int, now_s: float) -> None:
    """Set the time of a running replica's next failure: the next one listed, or a drawn one."""
    replica = state.replicas[index]
    replica.fault_s = math.inf
    for place in range(len(state.faults)):
        fault = state.faults[place]
        if fault.replica == index and fault.at_s >= now_s:
            replica.fault_s = fault.at_s
            return
    if state.limits.mean_up_s > 0.0:
        replica.fault_s = now_s + _draw_s(state, index, float(state.limits.mean_up_s))


@compiled
def _draw_s(state: State, index: int, mean_s: float) -> float:
    """An exponential time; one after the other for each replica, whatever the others do."""
    replica = state.replicas[index]
    luck = uniform(state.seed, STREAM_FAULT, index, int(replica.num_faults))
    replica.num_faults += 1
    return float(-mean_s * math.log(1.0 - luck))


@compiled_apart
def _break_down(state: State, index: int, now_s: float) -> None:
    """The step is aborted, KV and cache are lost; requests go to other replicas, or fail."""
    replica = state.replicas[index]
    replica.is_down = 1
    replica.down_since_s = now_s
    _set_return(state, index, now_s)
    if replica.is_busy:
        _abort_step(state, index, now_s)
    while replica.num_running > 0:
        request = take_out(state, index, NOTHING)
        row = state.requests[request]
        row.step_proposed = 0
        replica.outstanding_tokens -= row.prompt_tokens + row.emitted_tokens
        if row.is_cancelled:
            end_request(state, request, CANCELLED, GAVE_UP, now_s)
        elif row.num_restarts < state.limits.most_restarts:
            row.num_restarts += 1
            _send_elsewhere(state, request, now_s)
        else:
            end_request(state, request, FAILED, REPLICA_FAILED, now_s)
    _move_waiting(state, index, now_s)
    if state.limits.caches_prefixes:
        forget_all(state, index)
    if replica.mode != state.limits.initial_mode:
        set_mode(state, index, now_s, int(state.limits.initial_mode), RESTARTED)
    replica.last_scheduled = 0
    replica.policy_age = 0
    replica.policy_seen = 0
    replica.policy_decided = 0
    replica.policy_mean = 0.0
    replica.gate_proposed = 0
    replica.gate_accepted = 0
    for place in range(state.gate_window.shape[1]):
        state.gate_window[index, place, 0] = 0
        state.gate_window[index, place, 1] = 0


@compiled
def _set_return(state: State, index: int, now_s: float) -> None:
    replica = state.replicas[index]
    for place in range(len(state.faults)):
        fault = state.faults[place]
        if fault.replica == index and fault.at_s == replica.fault_s:
            replica.fault_s = max(fault.until_s, now_s)
            return
    replica.fault_s = now_s + _draw_s(state, index, float(state.limits.mean_down_s))


@compiled_apart
def _abort_step(state: State, index: int, now_s: float) -> None:
    """The step ends here, with nothing of it but the time that it took."""
    replica = state.replicas[index]
    step = state.steps[replica.step_row]
    share = (now_s - step.begin_s) / (step.end_s - step.begin_s)
    step.propose_s *= share
    step.target_s *= share
    step.reconcile_s *= share
    step.overhead_s *= share
    step.end_s = now_s
    step.is_aborted = 1
    replica.is_busy = 0
    replica.step_end_s = math.inf


@compiled_apart
def _move_waiting(state: State, index: int, now_s: float) -> None:
    """Whoever waits goes elsewhere too, in order; where all are down, to the first that is back."""
    for _ in range(state.replicas[index].num_waiting):
        request = first_waiting(state, index)
        take_first(state, index, request)
        row = state.requests[request]
        state.replicas[index].outstanding_tokens -= row.prompt_tokens + row.emitted_tokens
        _send_elsewhere(state, request, now_s)


@compiled_apart
def _send_elsewhere(state: State, request: int, now_s: float) -> None:
    """The router sends a request again; it goes behind those who wait there already."""
    row = state.requests[request]
    row.replica = NONE  # where its session was is no reason any more
    index = route(state, request)
    if refusal(state, index, request) != 0:
        row.replica = index
        end_request(state, request, FAILED, REPLICA_FAILED, now_s)
        return
    state.replicas[index].outstanding_tokens += row.prompt_tokens + row.emitted_tokens
    append_waiting(state, index, request)


@compiled_apart
def _recover(state: State, index: int, now_s: float) -> None:
    replica = state.replicas[index]
    replica.is_down = 0
    replica.down_s += now_s - replica.down_since_s
    plan_fault(state, index, now_s)
