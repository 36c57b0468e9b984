"""Seconds that a service takes to give one request its whole life, by how many it serves at once.

With n requests running, each of k prefill chunks and C decode cycles, the mean life at that level
passes C + k steps; n of every C + k steps carry a prefill (or several, where that is more than
one). So at level n a life lasts

    w(n) = (C + k − j) · t(n) + j · t(n − p, prefill),    j = n · k / p

steps of plain decoding t(n) and steps that prefill too. Engines that prefill apart let the others
wait instead: w(n) = C · t(n) + n · t(0, prefill). n / w(n) is the rate at which level n serves.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcore.cost.price import LawTables, price_steps
from simcore.planner.load.cycles import CycleLaw
from simcore.speculation import DraftMode

FloatArray = NDArray[np.float64]

NUM_SHAPE_FIELDS = 12


@dataclass(frozen=True)
class Lives:
    """What the requests of a workload need, at one draft mode."""

    cycles: CycleLaw
    mode: DraftMode
    context_tokens: float  # of a decoding request, over its cycles
    prompt_tokens: FloatArray  # [num_quantiles] equally likely prefills
    may_speculate: float  # share of requests
    is_padded: bool  # shorter drafts are paid as full ones

    @property
    def mean_cycles(self) -> float:
        """E[C]."""
        return self.cycles.mean_cycles


def decode_shapes(lives: Lives, decoding: FloatArray) -> FloatArray:
    """[num_levels, fields of StepShape]: steps of so many decoding requests, averages inside."""
    mode, law = lives.mode, lives.cycles
    is_chain = mode.proposed_tokens == mode.depth
    proposed = law.drafted_depth if is_chain else mode.proposed_tokens * law.drafting_share
    verified = law.drafted_depth if is_chain else mode.verified_tokens * law.drafting_share
    queries = 1.0 + verified
    if lives.is_padded and mode.depth > 0:
        queries = 1.0 + mode.verified_tokens * lives.may_speculate
    share = law.drafting_share if mode.depth > 0 else 0.0
    own_queries = 1.0 + verified / share if share > 0.0 else 1.0
    shapes = np.zeros((len(decoding), NUM_SHAPE_FIELDS))
    shapes[:, 0] = shapes[:, 1] = decoding
    shapes[:, 2] = np.where(decoding > 0.0, mode.depth, 0.0)
    shapes[:, 3] = decoding * proposed
    shapes[:, 4] = decoding * verified
    shapes[:, 5] = decoding * queries
    shapes[:, 6] = decoding * (1.0 - share) * lives.context_tokens
    shapes[:, 7] = decoding * share * lives.context_tokens
    shapes[:, 10] = decoding * share * own_queries * (lives.context_tokens + own_queries / 2)
    shapes[:, 11] = mode.scheme
    return shapes


def with_prefill(
    shapes: FloatArray, requests: FloatArray, tokens: FloatArray, before: FloatArray
) -> FloatArray:
    """The same steps with prefill chunks of `requests`, `tokens` in all, `before` done already."""
    mixed = shapes.copy()
    mixed[:, 0] += requests
    mixed[:, 5] += tokens
    mixed[:, 7] += before
    mixed[:, 8] += tokens
    per_request = tokens / np.maximum(requests, 1.0)
    mixed[:, 10] += tokens * (before + 0.5 * per_request)
    return mixed


def step_seconds(law: LawTables, shapes: FloatArray) -> FloatArray:
    """[num_steps] seconds of whole steps."""
    seconds = np.zeros(len(shapes))
    price_steps(law, shapes, seconds)
    return seconds


@dataclass(frozen=True)
class LifeTimes:
    """By running requests n: arrays of [num_levels]."""

    life_s: FloatArray  # w(n), prefill included
    step_s: FloatArray  # mean step
    decode_s: FloatArray  # step without prefill
    prefill_s: FloatArray  # steps that prefill one request while n - 1 others run
    added_s: FloatArray  # what another prefill adds to such steps


def life_times(
    law: LawTables,
    lives: Lives,
    levels: FloatArray,
    *,
    budget_tokens: float,
    prefills_apart: bool,
) -> LifeTimes:
    """Times at each level [num_levels] of running requests.

    `budget_tokens`: of a step (max_num_batched_tokens), decoding requests served first.
    """
    cycles = lives.mean_cycles
    decode_s = step_seconds(law, decode_shapes(lives, levels))
    prompts = lives.prompt_tokens
    room = budget_tokens - (0.0 if prefills_apart else levels * (1.0 + lives.mode.verified_tokens))
    room = np.maximum(np.broadcast_to(room, levels.shape), 1.0)
    chunks = np.ceil(prompts[None, :] / room[:, None])  # [num_levels, num_quantiles]
    steps = chunks.mean(axis=1)  # k
    prefilling = steps / (cycles + steps)  # chance that a request does, in a step
    any_prefills = 1.0 - (1.0 - prefilling) ** levels
    together = levels * prefilling
    packed = together / any_prefills  # in a step that prefills
    packed = np.minimum(packed, np.maximum(room * steps / prompts.mean(), 1.0))
    others = np.zeros_like(levels) if prefills_apart else np.maximum(levels - packed, 0.0)
    mixed_s = _prefill_seconds(law, lives, others, packed, chunks)
    share = np.minimum(together / packed, 1.0)  # of steps that prefill
    step_s = (1.0 - share) * decode_s + share * mixed_s
    life_s = (cycles + steps) * step_s
    another_s = _prefill_seconds(law, lives, others, packed + 1.0, chunks)
    if prefills_apart:
        life_s = cycles * decode_s + levels * steps * mixed_s / packed
    return LifeTimes(
        life_s=life_s,
        step_s=step_s,
        decode_s=decode_s,
        prefill_s=steps * mixed_s,
        added_s=steps * np.maximum(another_s - mixed_s, 0.0),
    )


def _prefill_seconds(
    law: LawTables, lives: Lives, others: FloatArray, packed: FloatArray, chunks: FloatArray
) -> FloatArray:
    """[num_levels] mean time of a step with a prefill chunk, over the lengths of prompts."""
    num_levels, num_quantiles = chunks.shape
    prompts = np.broadcast_to(lives.prompt_tokens, chunks.shape)
    chunk = prompts / chunks
    # Several together: one of this length, the rest of the mean.
    tokens = chunk + (packed[:, None] - 1.0) * chunk.mean(axis=1, keepdims=True)
    before = (chunks - 1.0) * chunk / 2.0  # on average over the chunks
    base = np.repeat(decode_shapes(lives, others), num_quantiles, axis=0)
    shapes = with_prefill(base, np.repeat(packed, num_quantiles), tokens.ravel(), before.ravel())
    seconds = step_seconds(law, shapes).reshape(num_levels, num_quantiles)
    weights = chunks / chunks.sum(axis=1, keepdims=True)
    return np.asarray((seconds * weights).sum(axis=1))
