"""`heterogeneous`: the latent chain with an effect of the request, twelve parameters in all.

A request has an ease u, standard normal but for its skew. It shifts the log-odds of acceptance by
`acceptance_loading` · u, and those of the chain towards easy by `chain_loading` · u. Longer
outputs and runaways (outputs at the limit) are easier or harder by their own shift of u. An
output opens with positions that no draft survives: the one that prefill emits, and the tokens that
lookup needs before it can match.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from simcore.acceptance.chain import (
    Chain,
    accepted_law,
    cycle_matrices,
    mean_tokens,
    state_at_starts,
)
from simcore.acceptance.prediction import Outputs, Walks

FloatArray = NDArray[np.float64]

TYPICAL_OUTPUT_TOKENS = 128.0  # where the length's shift of the ease is 0
EASE_GRID = np.linspace(-8.0, 8.0, 161)  # request effects are rounded to it
NUM_QUANTILES = 200
WALKS_WANTED = 10_000
SMALLEST_SKEW = 1e-3


class Parameters(NamedTuple):
    """All that the model keeps. Odds are log-odds; `runaway_share` informs, lengths decide."""

    easy: float
    hard: float
    easy_to_hard: float
    hard_to_easy: float
    depth_decay: float
    acceptance_loading: float
    chain_loading: float
    skew: float
    length_slope: float  # ease per unit of ln(output tokens / 128)
    opening_positions: int
    runaway_shift: float
    runaway_share: float


def chain_at(parameters: Parameters, ease: ArrayLike) -> Chain:
    """The chains of requests of this ease [...]."""
    effect = np.asarray(ease, dtype=np.float64)
    return Chain(
        easy=parameters.easy + parameters.acceptance_loading * effect,
        hard=parameters.hard + parameters.acceptance_loading * effect,
        easy_to_hard=parameters.easy_to_hard - parameters.chain_loading * effect,
        hard_to_easy=parameters.hard_to_easy + parameters.chain_loading * effect,
        depth_decay=parameters.depth_decay,
    )


def skewed(normal: FloatArray, skew: float) -> FloatArray:
    """Standard normal numbers bent into a shifted lognormal of mean 0 and variance 1."""
    if abs(skew) < SMALLEST_SKEW:
        return normal
    middle = np.exp(skew * skew / 2)
    spread = middle * np.sqrt(np.expm1(skew * skew))
    return np.asarray(np.sign(skew) * (np.exp(skew * normal) - middle) / spread, dtype=np.float64)


def length_effect(tokens: NDArray[np.int64]) -> FloatArray:
    """What `length_slope` multiplies."""
    return np.asarray(np.log(np.maximum(tokens, 1) / TYPICAL_OUTPUT_TOKENS), dtype=np.float64)


def typical_ease(parameters: Parameters, *, runaway: bool = False) -> FloatArray:
    """Equally likely values of the ease of outputs of 128 tokens, or of runaways."""
    quantile = (np.arange(NUM_QUANTILES) + 0.5) / NUM_QUANTILES
    ease = skewed(np.asarray(ndtri(quantile), dtype=np.float64), parameters.skew)
    return ease + parameters.runaway_shift if runaway else ease


@dataclass(frozen=True)
class Heterogeneous:
    """The fitted model: parameters, and the γ that they were fitted at."""

    parameters: Parameters
    fitted_gamma: int

    @property
    def name(self) -> str:
        """As results and scenarios call it."""
        return "heterogeneous"

    def survival(self, gamma: int, output_tokens: NDArray[np.int64] | None = None) -> FloatArray:
        """(s_1 .. s_γ) over the cycles of outputs of these lengths (all 128), past their opening.

        A request of low acceptance runs more cycles for the same tokens and counts for more.
        Runaways are left out.
        """
        tokens = np.array([TYPICAL_OUTPUT_TOKENS]) if output_tokens is None else output_tokens
        centre = self.parameters.length_slope * length_effect(tokens)
        row = _nearest_row(centre[:, None] + typical_ease(self.parameters)).ravel()
        weight = np.repeat(tokens / len(tokens), NUM_QUANTILES)
        share_of_tokens = np.bincount(row, weights=weight, minlength=len(EASE_GRID))
        matrices = cycle_matrices(chain_at(self.parameters, EASE_GRID), gamma)
        cycles = share_of_tokens / mean_tokens(matrices)
        law = cycles @ accepted_law(matrices) / cycles.sum()
        reached = np.cumsum(law[::-1])[::-1]
        return np.asarray(np.minimum(reached[1:] / reached[0], 1.0), dtype=np.float64)

    def walks(self, gamma: int, outputs: Outputs, *, seed: int) -> Walks:
        """Simulated requests of these lengths, each length several times, eases stratified."""
        copies = max(1, -(-WALKS_WANTED // max(len(outputs.tokens), 1)))
        # Runaways take thousands of cycles; there are few of them and one copy tells enough.
        if outputs.runaway.any():
            copies = min(copies, 6)
        return simulate_walks(self.parameters, gamma, outputs.repeated(copies), seed)


def simulate_walks(parameters: Parameters, gamma: int, outputs: Outputs, seed: int) -> Walks:
    """One walk of each of these requests."""
    random = np.random.default_rng(seed)
    row = _ease_rows(parameters, outputs, random)
    matrices = cycle_matrices(chain_at(parameters, EASE_GRID), gamma)
    # For each ease and state, the running sum over (accepted, next state).
    ladder = np.cumsum(
        matrices.transpose(0, 2, 1, 3).reshape(len(EASE_GRID), 2, 2 * (gamma + 1)), axis=-1
    )
    state = (random.random(len(row)) > state_at_starts(matrices)[row, 0]).astype(np.int64)
    cycles = np.minimum(parameters.opening_positions, outputs.tokens)
    left = outputs.tokens - cycles
    running = np.flatnonzero(left > 0)
    while len(running):
        steps = ladder[row[running], state[running]]
        luck = random.random(len(running))[:, None]
        outcome = np.minimum((steps <= luck).sum(axis=1), steps.shape[1] - 1)
        state[running] = outcome % 2
        left[running] -= outcome // 2 + 1
        cycles[running] += 1
        running = running[left[running] > 0]
    return Walks(outputs.tokens, cycles)


def _ease_rows(
    parameters: Parameters, outputs: Outputs, random: np.random.Generator
) -> NDArray[np.int64]:
    count = len(outputs.tokens)
    quantile = (random.permutation(count) + random.random(count)) / max(count, 1)
    ease = skewed(np.asarray(ndtri(quantile), dtype=np.float64), parameters.skew)
    slope = parameters.length_slope * length_effect(outputs.tokens)
    ease = ease + np.where(outputs.runaway, parameters.runaway_shift, slope)
    return _nearest_row(ease)


def _nearest_row(ease: FloatArray) -> NDArray[np.int64]:
    step = EASE_GRID[1] - EASE_GRID[0]
    row = np.rint((ease - EASE_GRID[0]) / step).astype(np.int64)
    return np.asarray(np.clip(row, 0, len(EASE_GRID) - 1), dtype=np.int64)
