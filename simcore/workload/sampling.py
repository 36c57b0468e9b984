"""Draw a workload's requests: arrival, lengths, domain, recorded request.

One seed gives an independent stream for each purpose: changing the lengths moves no arrival, and
every deployment or draft length under comparison meets the very same requests.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.trace import TraceSet
from simcore.errors import ScenarioError
from simcore.workload.arrivals import sample_arrivals
from simcore.workload.lengths import sample_lengths
from simcore.workload.recorded import num_requests
from simcore.workload.turns import NONE, Turns, sample_turns, with_history
from simcore.workload_kinds import Workload
from simcore.workload_kinds.lengths import MAX_TOKENS

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class RequestBatch:
    """The requests of one run; arrays of [num_requests].

    First those that come by themselves, in order of arrival, then those that follow an answer;
    theirs is the time of arrival only once the answer is there.
    """

    arrival_s: NDArray[np.float64]
    prompt_tokens: IntArray
    output_tokens: IntArray
    domain: IntArray
    trace: IntArray  # recorded request to replay; 0 where there are no traces
    turns: Turns
    group: IntArray  # the shared prefix that it begins with; NONE: none
    group_tokens: IntArray  # [num_groups]


def sample_requests(
    workload: Workload,
    domain_names: tuple[str, ...],
    traces: TraceSet | None,
    seed: int,
    *,
    pools: list[IntArray] | None = None,
) -> RequestBatch:
    """Draw the workload's requests.

    `pools[d]` lists the recorded requests that domain d draws from, uniformly; by default all
    of its own. A bootstrap passes resampled pools. Raises ScenarioError for recorded lengths
    without traces, and for a recorded file that cannot be used.
    """
    streams = np.random.SeedSequence(seed).spawn(6)
    arrivals, lengths, domains, recorded, turning, sharing = map(np.random.default_rng, streams)
    count = num_requests(workload)
    turns = sample_turns(workload, count, turning)
    domain = domains.choice(len(domain_names), size=count, p=domain_weights(workload, domain_names))
    if workload.sessions is not None:
        domain = domain[turns.session]  # a session stays with its subject
    trace = np.zeros(count, dtype=np.int64)
    if traces is not None:
        pools = pools or own_pools(traces)
        luck = recorded.random(count)
        sizes = np.array([len(pool) for pool in pools])
        flat = np.concatenate(pools)
        first = np.cumsum(sizes) - sizes
        trace = flat[first[domain] + (luck * sizes[domain]).astype(np.int64)]
    prompt, output = sample_lengths(workload, traces, trace, lengths)
    if workload.sessions is not None and workload.sessions.keeps_history:
        prompt = with_history(turns, prompt, output)
        if prompt.max() > MAX_TOKENS:
            raise ScenarioError(
                f"sessions grow to prompts of {prompt.max()} tokens; expected at most "
                f"{MAX_TOKENS}: lower max_turns or the lengths"
            )
    arrival_s = np.zeros(count)
    arrival_s[: turns.num_open] = sample_arrivals(workload.arrivals, turns.num_open, arrivals)
    group, group_tokens = _shared_groups(workload, domain_names, domain, turns, sharing)
    return RequestBatch(
        arrival_s=arrival_s,
        prompt_tokens=prompt,
        output_tokens=output,
        domain=domain.astype(np.int64),
        trace=trace,
        turns=turns,
        group=group,
        group_tokens=group_tokens,
    )


class Draw(Protocol):
    """A way to draw a workload's requests: `sample_requests`, or one that remembers them."""

    def __call__(
        self,
        workload: Workload,
        domain_names: tuple[str, ...],
        traces: TraceSet | None,
        seed: int,
        *,
        pools: list[IntArray] | None = None,
    ) -> RequestBatch: ...


class RememberedDraws:
    """Draws that runs of one process share: the same workload under the same seed is drawn once.

    Batches are read only by those who use them. The last `most` are kept.
    """

    def __init__(self, most: int = 16) -> None:
        self._most = most
        # The trace set is kept with its batch, so that no other can come to have its id.
        self._kept: OrderedDict[object, tuple[TraceSet | None, RequestBatch]] = OrderedDict()

    def __call__(
        self,
        workload: Workload,
        domain_names: tuple[str, ...],
        traces: TraceSet | None,
        seed: int,
        *,
        pools: list[IntArray] | None = None,
    ) -> RequestBatch:
        """The requests as `sample_requests` draws them."""
        if pools is not None:  # a bootstrap's own
            return sample_requests(workload, domain_names, traces, seed, pools=pools)
        key = (workload.model_dump_json(), domain_names, id(traces), seed)
        if key not in self._kept:
            self._kept[key] = traces, sample_requests(workload, domain_names, traces, seed)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key][1]


def _shared_groups(
    workload: Workload,
    domain_names: tuple[str, ...],
    domain: IntArray,
    turns: Turns,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """(group of every request, tokens of every group): one of its domain's prefixes each."""
    shares = [workload.share(name) for name in domain_names]
    counts = np.array([s.num_prefixes if s.shared_prefix_tokens else 0 for s in shares])
    tokens = np.repeat([s.shared_prefix_tokens for s in shares], counts)
    if len(tokens) == 0:
        return np.full(len(domain), NONE, dtype=np.int64), tokens.astype(np.int64)
    luck = rng.random(len(domain))
    if workload.sessions is not None:
        luck = luck[turns.session]
    first = np.cumsum(counts) - counts
    group = first[domain] + (luck * counts[domain]).astype(np.int64)
    return np.where(counts[domain] > 0, group, NONE), tokens.astype(np.int64)


def domain_weights(workload: Workload, domain_names: tuple[str, ...]) -> NDArray[np.float64]:
    """Probability of each domain; all alike where the workload names none."""
    if not workload.domains:
        return np.full(len(domain_names), 1.0 / len(domain_names))
    named = workload.domains
    weights = np.array([workload.share(n).weight if n in named else 0.0 for n in domain_names])
    return np.asarray(weights / weights.sum())


def own_pools(traces: TraceSet) -> list[IntArray]:
    """Per domain, every recorded request of it."""
    return [traces.requests_of(name) for name in traces.domain_names]


def bootstrap_pools(traces: TraceSet, rng: np.random.Generator) -> list[IntArray]:
    """Per domain, as many recorded requests drawn with replacement."""
    return [rng.choice(pool, size=len(pool)) for pool in own_pools(traces)]
