"""Draw a workload's requests: arrival, lengths, domain, recorded request.

One seed gives four independent streams, so that changing the lengths moves no arrival, and every
deployment or draft length under comparison meets the very same requests.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.trace import TraceSet
from simcore.workload.arrivals import sample_arrivals
from simcore.workload.lengths import sample_lengths
from simcore.workload.recorded import num_requests
from simcore.workload_kinds import Workload

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class RequestBatch:
    """The requests of one run, in order of arrival; arrays of [num_requests]."""

    arrival_s: NDArray[np.float64]
    prompt_tokens: IntArray
    output_tokens: IntArray
    domain: IntArray
    trace: IntArray  # recorded request to replay; 0 where there are no traces


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
    streams = np.random.SeedSequence(seed).spawn(4)
    arrivals, lengths, domains, recorded = (np.random.default_rng(stream) for stream in streams)
    count = num_requests(workload)
    domain = domains.choice(len(domain_names), size=count, p=domain_weights(workload, domain_names))
    trace = np.zeros(count, dtype=np.int64)
    if traces is not None:
        pools = pools or own_pools(traces)
        luck = recorded.random(count)
        sizes = np.array([len(pool) for pool in pools])
        flat = np.concatenate(pools)
        first = np.cumsum(sizes) - sizes
        trace = flat[first[domain] + (luck * sizes[domain]).astype(np.int64)]
    prompt, output = sample_lengths(workload, traces, trace, lengths)
    return RequestBatch(
        arrival_s=sample_arrivals(workload.arrivals, count, arrivals),
        prompt_tokens=prompt,
        output_tokens=output,
        domain=domain.astype(np.int64),
        trace=trace,
    )


def domain_weights(workload: Workload, domain_names: tuple[str, ...]) -> NDArray[np.float64]:
    """Probability of each domain; all alike where the workload names none."""
    if not workload.domains:
        return np.full(len(domain_names), 1.0 / len(domain_names))
    weights = np.array([workload.domains.get(name, 0.0) for name in domain_names])
    return np.asarray(weights / weights.sum())


def own_pools(traces: TraceSet) -> list[IntArray]:
    """Per domain, every recorded request of it."""
    return [traces.requests_of(name) for name in traces.domain_names]


def bootstrap_pools(traces: TraceSet, rng: np.random.Generator) -> list[IntArray]:
    """Per domain, as many recorded requests drawn with replacement."""
    return [rng.choice(pool, size=len(pool)) for pool in own_pools(traces)]
