"""One combination on a real target: what its cycles accept and how long they take."""

from dataclasses import dataclass

import numpy as np

from calibration.contracts.transforms import Transforms
from calibration.model.target import LoadedModel
from calibration.serve.request import ServedRequest
from calibration.serve.run import Served, serve
from calibration.serve.service import Service
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.profile.schema import Contract
from simcore.scenario import Deployment, Scenario
from simcore.speculation import DynamicTree, Speculation
from simcore.workload_kinds import BatchArrivals, RecordedLengths, Workload
from tests.calibration.combinations.listing import DEPTH, TOPOLOGIES, Combination

PHASES = ("propose", "target", "reconcile", "overhead")
NUM_RESAMPLES = 2000
KV_TOKENS = 4096


@dataclass(frozen=True)
class Models:
    """What is decoded with."""

    target: LoadedModel
    draft: LoadedModel
    skip_layers: int


def measured(
    combination: Combination,
    models: Models,
    prompts: dict[str, list[list[int]]],
    max_tokens: int,
    seed: int,
) -> dict:
    """Acceptance by domain, and the medians of the cycles' phases over all of them, in seconds."""
    domains, step_s = {}, []
    for domain, ids in prompts.items():
        run = _served(combination, models, ids, max_tokens, seed)
        domains[domain] = acceptance(run, np.random.default_rng(seed))
        step_s += _cycle_times(run)
    times = np.array(step_s)  # [cycles, phases]
    medians = {
        name: round(float(np.median(column)), 7)
        for name, column in zip(PHASES, times.T, strict=True)
    }
    medians["cycle"] = round(float(np.median(times.sum(axis=1))), 7)
    return {"domains": domains, "median_s": medians, "timed_cycles": len(times)}


def acceptance(run: Served, rng: np.random.Generator) -> dict:
    """Survival at cycle starts and E[Y], before any cut; errors by resampling whole requests."""
    count = len(run.texts)
    survivors = np.zeros((count, DEPTH + 1))  # [R, 1 + depth]; column 0: cycles
    proposed = 0
    for cycle in run.cycles:
        if not cycle.is_prefill:
            survivors[cycle.request, : len(cycle.path) + 1] += 1
            proposed += cycle.draft.num_candidates > 0
    total = survivors.sum(axis=0)
    drawn = rng.integers(0, count, (NUM_RESAMPLES, count))
    resampled = survivors[drawn].sum(axis=1)  # [resamples, 1 + depth]
    rates = resampled[:, 1:] / resampled[:, :1]
    survival = total[1:] / total[0]
    return {
        "requests": count,
        "cycles": int(total[0]),
        "cycles_with_drafts": int(proposed),
        "survivors": total[1:].astype(int).tolist(),
        "survival": [round(float(rate), 4) for rate in survival],
        "survival_se": [round(float(error), 4) for error in rates.std(axis=0)],
        "tokens_per_cycle": round(1.0 + float(survival.sum()), 4),
        "tokens_per_cycle_se": round(float(rates.sum(axis=1).std()), 4),
    }


def _served(
    combination: Combination,
    models: Models,
    prompts: list[list[int]],
    max_tokens: int,
    seed: int,
) -> Served:
    """Requests one after another, so that a step is one request's cycle."""
    transforms = Transforms(combination.sampling)
    requests = [ServedRequest(tuple(ids), max_tokens, transforms=transforms) for ids in prompts]
    proposing = combination.proposing(models.target, models.draft, models.skip_layers)
    service = Service(scenario_of(combination, seed), requests, models.target, proposing)
    return serve(service, combination.rule)


def scenario_of(combination: Combination, seed: int) -> Scenario:
    """A seat for one, with more room than it needs."""
    topology = TOPOLOGIES[combination.topology]
    speculation = Speculation(proposer=combination.proposer, num_speculative_tokens=topology.depth)
    if isinstance(topology, DynamicShape):
        dynamic = DynamicTree(topk=topology.topk, num_draft_tokens=topology.num_nodes)
        speculation = Speculation(
            proposer=combination.proposer,
            num_speculative_tokens=topology.depth,
            dynamic_tree=dynamic,
        )
    elif topology.width > 1:
        speculation = Speculation(
            proposer=combination.proposer,
            num_speculative_tokens=topology.depth,
            tree=topology.parents,
        )
    is_greedy = combination.contract == "greedy"
    return Scenario(
        name="combination",
        profile="none",
        contract=Contract.GREEDY_EQUALITY if is_greedy else Contract.EXACT_SAMPLING,
        sampling=combination.sampling,
        workload=Workload(
            arrivals=BatchArrivals(kind="batch"), lengths=RecordedLengths(kind="recorded")
        ),
        deployment=Deployment(
            max_num_seqs=1,
            max_num_batched_tokens=1024,
            block_size=16,
            kv_cache_tokens=KV_TOKENS,
        ),
        speculation=speculation,
        seed=seed,
    )


def _cycle_times(run: Served) -> list[list[float]]:
    steps = run.records.steps
    cycles = (steps["num_decoding"] == 1) & (steps["prefill_tokens"] == 0)
    return [
        [took.propose_s, took.target_s, took.reconcile_s, took.overhead_s]
        for took, is_cycle in zip(run.step_times, cycles, strict=True)
        if is_cycle
    ]
