"""The acceptance phase: decode every prompt for real and write down its acceptance trace.

The first `decoded_per_domain` prompts of a domain are decoded with every proposer's own cycles,
the others with the first proposer's only: greedy text does not depend on the proposer and sampled
text follows the target's distribution under all of them, so a trace over it is just as exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from calibration.contracts.named import chain_contract
from calibration.contracts.transforms import Transforms
from calibration.model.target import LoadedModel
from calibration.progress import Track
from calibration.proposers.ngram import NgramProposer
from calibration.randomness import keyed_seed
from calibration.serve.alone import serve_alone
from calibration.serve.proposing import Proposing
from calibration.serve.request import ServedRequest
from calibration.serve.run import Served
from calibration.serve.texts import ServedCycle
from calibration.traces import RequestTrace, draft_trace, ngram_trace, walk_emitted_tokens
from calibration.workfolder import WorkFolder
from simcore.acceptance.tree import chain
from simcore.profile.schema import AcceptanceRecord, Contract, Sampling


@dataclass(frozen=True)
class TraceSettings:
    """How the prompts are decoded."""

    max_gamma: int
    max_tokens: int
    decoded_per_domain: int
    temperatures: tuple[float, ...]
    seed: int


@dataclass(frozen=True)
class RecordPlan:
    """One acceptance record to be measured; `base` is the record whose text it may share."""

    key: int
    proposer: str
    sampling: Sampling
    domain: str
    base: int


@dataclass(frozen=True)
class Decoding:
    """What texts are made with: the serving loop's own target and proposers, by name."""

    target: LoadedModel
    proposing: Mapping[str, Proposing]

    def trace(
        self,
        plan: RecordPlan,
        prompt_ids: Sequence[int],
        text_ids: Sequence[int],
        output_tokens: int,
        max_gamma: int,
        rng: np.random.Generator,
    ) -> RequestTrace:
        """What the plan's proposer would have done at every start of a text."""
        draft = self.proposing[plan.proposer].draft
        if draft is not None:
            return draft_trace(
                self.target,
                draft,
                prompt_ids,
                text_ids,
                output_tokens,
                max_gamma,
                plan.sampling,
                rng,
            )
        if plan.proposer == NgramProposer.name:
            return ngram_trace(NgramProposer(), prompt_ids, text_ids, output_tokens, max_gamma)
        raise TypeError(f"no trace is defined for proposer {plan.proposer!r}")


@dataclass(frozen=True)
class Request:
    """A finished request: its text, its trace, and the real cycles where there were any."""

    text_ids: list[int]
    trace: RequestTrace
    real_emitted: list[int]  # tokens of each real cycle, cut at the kept output
    real_matches: int  # real cycles that proposed anything


def plan_records(
    proposers: Sequence[str], domains: Sequence[str], temperatures: Sequence[float]
) -> list[RecordPlan]:
    """Every proposer × temperature × domain, numbered in that order."""
    per_proposer = len(temperatures) * len(domains)
    plans: list[RecordPlan] = []
    for proposer in proposers:
        for temperature in temperatures:
            for domain in domains:
                key = len(plans)
                plans.append(
                    RecordPlan(
                        key,
                        proposer,
                        Sampling(temperature=temperature),
                        domain,
                        base=key % per_proposer,
                    )
                )
    return plans


def measure_requests(
    decoding: Decoding,
    plans: Sequence[RecordPlan],
    prompts: dict[str, list[list[int]]],
    settings: TraceSettings,
    work: WorkFolder,
    track: Track,
) -> dict[int, list[Request]]:
    """Record key -> its finished requests; those that `work` holds are not decoded again."""
    finished: dict[int, list[Request]] = {plan.key: [] for plan in plans}
    turns = [(plan, index) for plan in plans for index in range(len(prompts[plan.domain]))]
    for plan, index in track(turns, "decoding prompts"):
        piece = f"request-{plan.key:03d}-{index:04d}"
        saved = work.load(piece)
        if saved is None:
            shared = plan.base != plan.key and index >= settings.decoded_per_domain
            text_ids = finished[plan.base][index].text_ids if shared else None
            request = _measure_request(
                decoding, plan, index, prompts[plan.domain][index], text_ids, settings
            )
            work.save(piece, asdict(request))
        else:
            request = _restore(saved)
        finished[plan.key].append(request)
    return finished


def _measure_request(
    decoding: Decoding,
    plan: RecordPlan,
    index: int,
    prompt_ids: list[int],
    text_ids: list[int] | None,
    settings: TraceSettings,
) -> Request:
    cycles: Sequence[ServedCycle] = ()
    if text_ids is None:
        served = _decode(decoding, plan, index, prompt_ids, settings)
        text_ids, cycles = served.texts[0].output_ids, served.cycles
    output_tokens = min(settings.max_tokens, len(text_ids))
    trace = decoding.trace(
        plan,
        prompt_ids,
        text_ids,
        output_tokens,
        settings.max_gamma,
        np.random.default_rng([settings.seed, plan.key, index]),
    )
    kept = [cycle for cycle in cycles if not cycle.is_prefill and cycle.start < output_tokens]
    return Request(
        text_ids,
        trace,
        [min(len(cycle.token_ids), output_tokens - cycle.start) for cycle in kept],
        sum(cycle.draft.num_candidates > 0 for cycle in kept),
    )


def _decode(
    decoding: Decoding, plan: RecordPlan, index: int, prompt_ids: list[int], settings: TraceSettings
) -> Served:
    max_tokens = settings.max_tokens + settings.max_gamma
    transforms = Transforms(plan.sampling)
    return serve_alone(
        decoding.target,
        ServedRequest(tuple(prompt_ids), max_tokens, transforms=transforms),
        chain_contract(plan.sampling),
        decoding.proposing[plan.proposer],
        chain(settings.max_gamma),
        seed=keyed_seed(settings.seed, "decode", plan.key, index),
    )


def _restore(saved: dict[str, Any]) -> Request:
    return Request(**saved | {"trace": RequestTrace(**saved["trace"])})


def traces_table(requests: dict[int, list[Request]]) -> pd.DataFrame:
    """traces.parquet's columns, record after record, request after request."""
    frames = [
        pd.DataFrame(request.trace.columns()).assign(record=key, request=index)
        for key, of_record in requests.items()
        for index, request in enumerate(of_record)
    ]
    return pd.concat(frames, ignore_index=True)


def acceptance_record(
    plan: RecordPlan, requests: Sequence[Request], max_gamma: int
) -> AcceptanceRecord:
    """The profile's entry for a measured record."""
    num_cycles = sum(len(request.real_emitted) for request in requests)
    num_matches = sum(request.real_matches for request in requests)
    greedy = plan.sampling.temperature == 0.0
    return AcceptanceRecord(
        key=plan.key,
        proposer=plan.proposer,
        domain=plan.domain,
        sampling=plan.sampling,
        contract=Contract.GREEDY_EQUALITY if greedy else Contract.EXACT_SAMPLING,
        kind="trace",
        max_num_speculative_tokens=max_gamma,
        num_requests=len(requests),
        counted_at="every_position",
        num_cycles={max_gamma: num_cycles} if num_cycles else {},
        match_probability=num_matches / num_cycles if num_matches else 1.0,
    )


@dataclass(frozen=True)
class CycleCheck:
    """Mean emitted tokens a cycle: real cycles against the walk over the same requests' traces."""

    num_requests: int
    num_cycles: int
    real_tokens_per_cycle: float
    walked_tokens_per_cycle: float


def check_cycles(requests: Sequence[Request], max_gamma: int) -> CycleCheck | None:
    """Compare the two over the requests that were really decoded; None where no cycle ran."""
    decoded = [request for request in requests if request.real_emitted]
    real = [tokens for request in decoded for tokens in request.real_emitted]
    walked = [n for request in decoded for n in walk_emitted_tokens(request.trace, max_gamma)]
    if not real:
        return None
    return CycleCheck(len(decoded), len(real), float(np.mean(real)), float(np.mean(walked)))
