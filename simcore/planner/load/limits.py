"""How many requests one replica runs at once: seats, KV memory, tokens of a step."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simcore.engines import RULES, sglang_step_slots
from simcore.planner.load.cycles import CycleLaw
from simcore.scenario import Scenario
from simcore.serving.memory import KVBudget
from simcore.speculation import DraftMode
from simcore.workload.sampling import RequestBatch

FloatArray = NDArray[np.float64]

MOST_ENDED = 64  # requests that end in one step


@dataclass(frozen=True)
class BatchLimits:
    """Most running requests by what limits them; inf: it does not."""

    seats: float
    kv: float
    step_tokens: float
    kv_deviation: float = 0.0  # standard deviation of `kv`: it depends on who is running

    @property
    def counted(self) -> float:
        """What seats and tokens of a step allow, at least 1; memory apart."""
        return max(min(self.seats, self.step_tokens), 1.0)

    @property
    def running(self) -> float:
        """The least of all, at least 1."""
        return min(self.counted, max(self.kv, 1.0))

    @property
    def binding(self) -> Literal["seats", "kv", "step_tokens"]:
        """Which one that is."""
        if self.kv < self.counted:
            return "kv"
        return "step_tokens" if self.step_tokens < self.seats else "seats"


def batch_limits(
    scenario: Scenario,
    budget: KVBudget,
    requests: RequestBatch,
    law: CycleLaw,
    mode: DraftMode,
    *,
    max_output_tokens: int,
    has_draft: bool,
) -> BatchLimits:
    """The limits of one replica under full load."""
    deployment = scenario.deployment
    verified = mode.verified_tokens
    cycles = law.mean_cycles
    prefill = float(requests.prompt_tokens.mean())
    # Every decoding request takes its tokens, and lets in the prefill of its successor.
    a_step = (1.0 + verified) + prefill / max(cycles, 1e-9)
    step_tokens = deployment.max_num_batched_tokens / a_step * (1.0 + 1.0 / max(cycles, 1e-9))
    if RULES[deployment.preset].prefills_apart:
        step_tokens = np.inf
    kv, deviation = _kv_limit(
        scenario,
        budget,
        requests,
        law,
        mode,
        max_output_tokens=max_output_tokens,
        has_draft=has_draft,
    )
    return BatchLimits(float(deployment.max_num_seqs), kv, float(step_tokens), deviation)


def _kv_limit(
    scenario: Scenario,
    budget: KVBudget,
    requests: RequestBatch,
    law: CycleLaw,
    mode: DraftMode,
    *,
    max_output_tokens: int,
    has_draft: bool,
) -> tuple[float, float]:
    """Requests whose KV fits, on average over their lives, and its standard deviation.

    Little's law on tokens in memory.
    """
    deployment = scenario.deployment
    if RULES[deployment.preset].has_fixed_slots:
        return np.inf, 0.0
    reserved = _reserved_tokens(scenario, mode, has_draft)
    held = _held_tokens(scenario, requests, max_output_tokens, reserved)
    weights = law.cycles + 1.0  # a long life is met more often
    # Averages, not inner products: BLAS would wake all its threads for each.
    mean_held = float(np.average(held, weights=weights))
    entering = float(held.mean())
    room = budget.total_tokens * (1.0 - deployment.watermark)
    limit = (room - entering / 2.0) / mean_held
    if budget.draft_blocks > 0:
        lower = held - reserved + mode.proposed_tokens
        draft_room = budget.draft_blocks * budget.draft_block_size
        draft_held = float(np.average(lower, weights=weights))
        limit = min(limit, (draft_room - float(lower.mean()) / 2.0) / draft_held)
    square = float(np.average((held - mean_held) ** 2, weights=weights))
    if not RULES[deployment.preset].admits_whole_life:  # met at any age
        square += float(np.average(requests.output_tokens**2 / 12.0, weights=weights))
    limit = max(float(limit), 1.0)
    return limit, float(np.sqrt(square * limit) / mean_held)


def _held_tokens(
    scenario: Scenario, requests: RequestBatch, max_output_tokens: int, reserved_tokens: float
) -> FloatArray:
    """[num_requests] KV tokens that each holds on average while it runs, whole blocks."""
    deployment = scenario.deployment
    size = deployment.block_size
    prompt = requests.prompt_tokens.astype(np.float64)
    if RULES[deployment.preset].admits_whole_life:
        tokens = prompt + max_output_tokens + scenario.speculation.num_draft_tokens
        return np.asarray(np.ceil(tokens / size) * size)
    grown = np.maximum(requests.output_tokens - 1, 0) / 2.0
    return np.asarray(prompt + grown + reserved_tokens + (size - 1) / 2.0, dtype=np.float64)


def _reserved_tokens(scenario: Scenario, mode: DraftMode, has_draft: bool) -> float:
    """Tokens that a request reserves for its next cycle, by the preset's rule."""
    deployment, speculation = scenario.deployment, scenario.speculation
    rules, gamma = RULES[deployment.preset], speculation.num_speculative_tokens
    if rules.holds_double_buffer and gamma > 0:
        slots = sglang_step_slots(
            gamma, speculation.topk, 1 + speculation.num_draft_tokens, deployment.block_size
        )
        return 2.0 * slots
    lookahead = gamma if rules.reserves_lookahead and has_draft else 0
    return 1.0 + mode.verified_tokens + lookahead


def recomputed_tokens(
    scenario: Scenario, requests: RequestBatch, law: CycleLaw, mode: DraftMode, running: float
) -> float:
    """Tokens a request whose KV is computed again while memory is full.

    A step frees K finished requests of P + L tokens, K Poisson with mean n / E[C], and the others
    grow by n / E[C] · L. What growth lacks is taken from the youngest, which gives P and what it
    has emitted, about L / 4: E[(grown - freed)⁺] / (P + L / 4) preemptions a step.
    """
    rules = RULES[scenario.deployment.preset]
    if rules.has_fixed_slots or rules.admits_whole_life:
        return 0.0
    prompt, output = float(requests.prompt_tokens.mean()), float(requests.output_tokens.mean())
    ended = running / max(law.mean_cycles, 1.0)
    counts = np.arange(MOST_ENDED)
    logs = counts * np.log(ended) - np.cumsum(np.log(np.maximum(counts, 1)))
    chances = np.exp(logs - ended)
    lacking = float(chances @ np.maximum(ended * output - counts * (prompt + output), 0.0))
    again = lacking / ended
    if not rules.prefills_apart:
        room = scenario.deployment.max_num_batched_tokens - running * (1 + mode.verified_tokens)
        steps = (law.mean_cycles + 1.0) / running  # for each request that ends
        again += steps * _tried_in_vain(requests, max(room, 1.0))
    return again


def _tried_in_vain(requests: RequestBatch, chunk_tokens: float) -> float:
    """Tokens a step that a prompt longer than a step's room computes and loses again.

    It enters as soon as its first chunk fits, finds no room for the next and goes: every other
    step, while what is free (anything up to its length) holds a chunk. It heads the line for a
    time in proportion to its length.
    """
    prompt = requests.prompt_tokens.astype(np.float64)
    holds_chunk = np.maximum(1.0 - chunk_tokens / prompt, 0.0)
    return float(prompt @ holds_chunk / prompt.sum()) / 2.0 * chunk_tokens
