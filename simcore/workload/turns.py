"""Who asks after whom: turns of sessions, and clients of a closed loop."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcore.workload_kinds import ClosedLoopArrivals, Sessions, ThinkTime, Workload

IntArray = NDArray[np.int64]
NONE = -1
SMALLEST_CV = 1e-6  # below it times are equal


@dataclass(frozen=True)
class Turns:
    """The requests that come by themselves first, then those that follow, turn by turn."""

    num_open: int
    session: IntArray  # [num_requests] NONE: nothing to do with each other, or not yet known
    follower: IntArray  # [num_requests] the next turn; NONE: the last, or not yet known
    think_s: NDArray[np.float64]  # [num_requests] from the end of the turn before; 0 for the first


def sample_turns(workload: Workload, count: int, rng: np.random.Generator) -> Turns:
    """Turns of `count` requests."""
    if isinstance(workload.arrivals, ClosedLoopArrivals):
        return _closed_loop(workload.arrivals, count, rng)
    if workload.sessions is not None:
        return _sessions(workload.sessions, count, rng)
    none = np.full(count, NONE, dtype=np.int64)
    return Turns(count, none, none, np.zeros(count))


def think_s(think: ThinkTime, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Gamma-distributed think times; constant without spread."""
    if think.mean_s == 0.0 or think.cv < SMALLEST_CV:
        return np.full(count, think.mean_s)
    shape = 1.0 / think.cv**2
    return rng.gamma(shape, think.mean_s / shape, size=count)


def with_history(turns: Turns, prompt_tokens: IntArray, output_tokens: IntArray) -> IntArray:
    """Prompts that begin with everything said before in their session."""
    whole = prompt_tokens.copy()
    asking = np.arange(turns.num_open)
    while len(asking):
        asking = asking[turns.follower[asking] != NONE]
        after = turns.follower[asking]
        whole[after] += whole[asking] + output_tokens[asking]
        asking = after
    return whole


def _closed_loop(arrivals: ClosedLoopArrivals, count: int, rng: np.random.Generator) -> Turns:
    """Who asks a request after the first of each client shows as the answers come."""
    clients = min(arrivals.num_clients, count)
    session = np.full(count, NONE, dtype=np.int64)
    session[:clients] = np.arange(clients)
    thinks = think_s(arrivals.think, count, rng)
    thinks[:clients] = 0.0  # their first arrivals are drawn with the arrivals
    return Turns(
        num_open=clients,
        session=session,
        follower=np.full(count, NONE, dtype=np.int64),
        think_s=thinks,
    )


def _sessions(sessions: Sessions, count: int, rng: np.random.Generator) -> Turns:
    lengths = _turns_of_sessions(sessions, count, rng)
    session = np.repeat(np.arange(len(lengths)), lengths)
    turn = np.arange(count) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    order = np.lexsort((session, turn))  # first turns first, sessions in order of arrival
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    next_place = np.append(place[1:], NONE)
    is_last = turn == np.repeat(lengths, lengths) - 1
    follower = np.where(is_last, NONE, next_place)
    thinks = think_s(sessions.think, count, rng)
    return Turns(
        num_open=len(lengths),
        session=session[order],
        follower=follower[order],
        think_s=np.where(turn == 0, 0.0, thinks)[order],
    )


def _turns_of_sessions(sessions: Sessions, count: int, rng: np.random.Generator) -> IntArray:
    """Turns of each session, `count` in all; the last session may be cut short."""
    drawn = np.full(count, int(sessions.mean_turns), dtype=np.int64)
    if sessions.turns == "geometric":
        drawn = rng.geometric(1.0 / sessions.mean_turns, size=count).astype(np.int64)
    drawn = np.minimum(drawn, sessions.max_turns)
    ends = np.cumsum(drawn)
    used = int(np.searchsorted(ends, count)) + 1
    lengths = drawn[:used].copy()
    lengths[-1] -= ends[used - 1] - count
    return lengths
