"""Fitting `heterogeneous` at one γ.

Three steps, each on what it can tell:
1. the chain, from the likelihood of each cycle given the two before it (a composite likelihood:
   the exact one would follow the hidden state through the whole output), the request effect
   integrated out, with the weak priors of `PRIORS`; runaways apart, whose thousands of cycles
   would outvote everybody;
2. the request effect, from the moments that matter: mean by request and by token, spread,
   slowest 5 %;
3. the runaways' shift, from their mean tokens a cycle.
Intervals come from requests drawn again and the whole fit repeated.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp

from simcore.acceptance.chain import accepted_law, cycle_matrices, mean_tokens, state_at_starts
from simcore.acceptance.evidence import Evidence
from simcore.acceptance.heterogeneous import (
    Heterogeneous,
    Parameters,
    chain_at,
    length_effect,
    simulate_walks,
    typical_ease,
)
from simcore.acceptance.prediction import Outputs
from simcore.acceptance.statistics import Figures, figures
from simcore.errors import AcceptanceError

FloatArray = NDArray[np.float64]

# Mean and standard deviation of the normal priors. They decide only what the data leave open.
PRIORS = {
    "easy": (1.5, 2.0),
    "hard": (-0.5, 2.0),
    "easy_to_hard": (-2.0, 2.0),
    "hard_to_easy": (-1.5, 2.0),
    "depth_decay": (0.0, 0.5),
    "acceptance_loading": (0.3, 0.5),
    "chain_loading": (0.3, 0.5),
    "length_slope": (0.0, 0.2),
    "skew": (0.0, 0.4),
}
CHAIN_PART = tuple(name for name in PRIORS if name != "skew")
BOUNDS = {"acceptance_loading": (0.0, 3.0), "chain_loading": (0.0, 3.0)}  # else ±7
# A text with brief lapses, and a text with brief copies: the likelihood may have both maxima.
STARTS = ((1.5, -0.5, -2.0, -1.5), (3.0, -2.5, -2.5, -2.5))
EASES = np.linspace(-5.0, 5.0, 41)

# Step 2: relative weight of each figure (mean by request, by token, spread, slowest), and priors
# of its four moves: shift and log scale of the ease, length slope, skew.
FIGURE_ERROR = np.array([0.003, 0.003, 0.03, 0.01])
MOVE_SD = np.array([1.0, 0.5, 0.5, PRIORS["skew"][1]])
PROBE = 0.15
NUM_ROUNDS = 5
LARGEST_MOVE = 0.4
LARGEST_SKEW = 0.8
WALKS_WANTED = 6_000

LARGEST_SHIFT = 7.0
FEW_RUNAWAYS = 5
IDENTIFIED = 0.5  # an interval at most this share of the prior's
NORMAL_95 = 1.96


class ParameterEstimate(BaseModel):
    """One parameter; 95 % interval over requests drawn again, None where none was made."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    value: float
    low: float | None
    high: float | None
    identified: bool = Field(description="the data told it; else the prior or too few runaways")


class Goodness(BaseModel):
    """A figure of the training requests at the fitted γ, and what the model says there."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    observed: float
    fitted: float


class FitReport(BaseModel):
    """What was fitted, how surely, and how well it describes what it was fitted to."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    gamma: int
    num_requests: int
    num_runaways: int
    num_resamples: int
    parameters: dict[str, ParameterEstimate]
    goodness: dict[str, Goodness]


def fit_heterogeneous(evidence: Evidence) -> Heterogeneous:
    """The model of these counts.

    Raises AcceptanceError where they hold too few cycles to follow one another.
    """
    if _regular(evidence).words.sum() == 0:
        raise AcceptanceError(
            f"no request holds {evidence.word_length} whole cycles at γ = {evidence.gamma} in a "
            "row past its opening; expected longer outputs, or a smaller γ"
        )
    return _fit(evidence, [_start(values) for values in STARTS])


def fit_report(
    evidence: Evidence,
    model: Heterogeneous,
    *,
    num_resamples: int = 20,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FitReport:
    """Intervals, what was identified, and goodness of fit of `model`, fitted to `evidence`.

    `progress` is told (refits done, of all) after each.
    """
    random = np.random.default_rng(seed)
    again = []
    for done in range(1, num_resamples + 1):
        again.append(_fit(evidence.resampled(random), [model.parameters]).parameters)
        if progress is not None:
            progress(done, num_resamples)
    spread = np.std(again, axis=0, ddof=1) if num_resamples > 1 else None
    num_runaways = int(evidence.runaway.sum())
    return FitReport(
        gamma=evidence.gamma,
        num_requests=evidence.num_requests,
        num_runaways=num_runaways,
        num_resamples=num_resamples,
        parameters={
            name: _estimate(name, value, None if spread is None else float(spread[i]), evidence)
            for i, (name, value) in enumerate(model.parameters._asdict().items())
        },
        goodness=_goodness(evidence, model),
    )


def _estimate(
    name: str, value: float, spread: float | None, evidence: Evidence
) -> ParameterEstimate:
    if name.startswith("runaway"):
        identified = name == "runaway_share" or int(evidence.runaway.sum()) >= FEW_RUNAWAYS
    elif name in PRIORS:
        identified = spread is not None and spread < IDENTIFIED * PRIORS[name][1]
        identified = identified and not (evidence.is_pooled and name not in CHAIN_PART[:4])
    else:
        identified = evidence.word_length > 1
    reach = None if spread is None else NORMAL_95 * spread
    return ParameterEstimate(
        value=value,
        low=None if reach is None else value - reach,
        high=None if reach is None else value + reach,
        identified=identified,
    )


def _goodness(evidence: Evidence, model: Heterogeneous) -> dict[str, Goodness]:
    regular = _regular(evidence)
    counted = regular.words.sum(axis=0).reshape((evidence.gamma + 1,) * evidence.word_length)
    single = counted.reshape(evidence.gamma + 1, -1).sum(axis=1)
    reached = np.cumsum(single[::-1])[::-1] / single.sum()
    lengths = None if evidence.is_pooled else regular.output_tokens
    fitted_survival = model.survival(evidence.gamma, lengths).tolist()
    found = {
        f"survival_{depth}": Goodness(observed=reached[depth], fitted=value)
        for depth, value in enumerate(fitted_survival, start=1)
    }
    if evidence.is_pooled:
        return found
    observed = figures(regular.output_tokens, regular.cycles)
    fitted = _figures_of(model.parameters, regular)
    return {
        name: Goodness(observed=getattr(observed, name), fitted=getattr(fitted, name))
        for name in Figures._fields
    } | found


def _start(values: tuple[float, ...]) -> Parameters:
    middle = {name: mean for name, (mean, _) in PRIORS.items()}
    named = dict(zip(CHAIN_PART, values, strict=False))
    return Parameters(**(middle | named), opening_positions=0, runaway_shift=0.0, runaway_share=0.0)


def _fit(evidence: Evidence, starts: list[Parameters]) -> Heterogeneous:
    regular = _regular(evidence)
    parameters = _fit_chain(regular, starts)._replace(
        opening_positions=regular.opening_positions,
        runaway_share=float(evidence.runaway.mean()),
    )
    if not evidence.is_pooled and regular.num_requests > 1:
        parameters = _match_moments(parameters, regular)
    if regular.num_requests < evidence.num_requests:
        parameters = _match_runaways(parameters, evidence.chosen(evidence.runaway))
    return Heterogeneous(parameters, evidence.gamma)


def _regular(evidence: Evidence) -> Evidence:
    """All but the runaways; all of them where there is nobody else to learn the text from."""
    return evidence if evidence.runaway.all() else evidence.chosen(~evidence.runaway)


def _fit_chain(evidence: Evidence, starts: list[Parameters]) -> Parameters:
    """Step 1: the maximum of the penalised composite likelihood, over several starts."""
    prior = np.array([PRIORS[name] for name in CHAIN_PART])

    def loss(vector: FloatArray) -> float:
        parameters = _with_chain(starts[0], vector)
        penalty = 0.5 * float((((vector - prior[:, 0]) / prior[:, 1]) ** 2).sum())
        return penalty - _log_likelihood(parameters, evidence)

    bounds = [BOUNDS.get(name, (-7.0, 7.0)) for name in CHAIN_PART]
    found = [
        minimize(
            loss,
            [getattr(start, name) for name in CHAIN_PART],
            method="L-BFGS-B",
            bounds=bounds,
        )
        for start in starts
    ]
    best = min(found, key=lambda result: float(result.fun))
    return _with_chain(starts[0], best.x)


def _with_chain(parameters: Parameters, vector: FloatArray) -> Parameters:
    """The values of `CHAIN_PART` in their places, before step 2 finds the skew."""
    values = dict(zip(CHAIN_PART, (float(value) for value in vector), strict=True))
    return Parameters(**(parameters._asdict() | values | {"skew": 0.0}))


def _log_likelihood(parameters: Parameters, evidence: Evidence) -> float:
    matrices = cycle_matrices(chain_at(parameters, EASES), evidence.gamma)
    if evidence.is_pooled:
        law = accepted_law(matrices)
        weight = np.exp(-0.5 * EASES**2) / mean_tokens(matrices)
        return float(evidence.words[0] @ _log(weight @ law / weight.sum()))
    longer, shorter = _word_laws(matrices, evidence.word_length)
    given_before = _log(longer) - _log(shorter)[..., None]
    by_ease = evidence.words @ given_before.reshape(len(EASES), -1).T
    if evidence.word_length > 1:
        by_ease = by_ease + evidence.first @ _log(shorter).reshape(len(EASES), -1).T
    centre = parameters.length_slope * length_effect(evidence.output_tokens)
    log_weight = -0.5 * (EASES[None] - centre[:, None]) ** 2
    log_weight -= logsumexp(log_weight, axis=1, keepdims=True)
    return float(logsumexp(by_ease + log_weight, axis=1).sum())


def _word_laws(matrices: FloatArray, word_length: int) -> tuple[FloatArray, FloatArray]:
    """P(word) of `word_length` cycles [ease, (γ + 1)^n] and of one cycle less, at cycle starts."""
    state = state_at_starts(matrices)[:, None, :]
    shorter = state
    for _ in range(word_length):
        shorter = state
        state = np.einsum("zwi,zaij->zwaj", state, matrices)
        state = state.reshape(len(matrices), -1, 2)
    longer = state.sum(axis=-1)
    shorter_law = shorter.sum(axis=-1)
    return longer.reshape(len(matrices), shorter_law.shape[1], -1), shorter_law


def _log(law: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.maximum(law, 1e-12)), dtype=np.float64)


def _match_moments(parameters: Parameters, evidence: Evidence) -> Parameters:
    """Step 2: Gauss-Newton on four figures, under the same random numbers in every round."""
    wanted = np.array(figures(evidence.output_tokens, evidence.cycles))
    scale = np.maximum(wanted, 1e-3) * FIGURE_ERROR

    def distance(move: FloatArray) -> FloatArray:
        found = _figures_of(_moved(parameters, move), evidence)
        return np.asarray((np.array(found) - wanted) / scale, dtype=np.float64)

    move = np.zeros(len(MOVE_SD))
    for _ in range(NUM_ROUNDS):
        now = distance(move)
        slopes = _slopes(distance, move, now)
        curvature = slopes.T @ slopes + np.diag(MOVE_SD**-2.0)
        step = -np.linalg.solve(curvature, slopes.T @ now + move / MOVE_SD**2)
        move = move + np.clip(step, -LARGEST_MOVE, LARGEST_MOVE)
        move[3] = np.clip(move[3], -LARGEST_SKEW, LARGEST_SKEW)
    return _moved(parameters, move)


def _slopes(
    function: Callable[[FloatArray], FloatArray], at: FloatArray, value: FloatArray
) -> FloatArray:
    probes = at + PROBE * np.eye(len(at))
    return np.stack([(function(probe) - value) / PROBE for probe in probes], axis=1)


def _moved(parameters: Parameters, move: FloatArray) -> Parameters:
    """The ease shifted and stretched, folded into what it acts on."""
    shift, stretch = float(move[0]), float(np.exp(move[1]))
    moved = chain_at(parameters, shift)
    return parameters._replace(
        easy=float(moved.easy),
        hard=float(moved.hard),
        easy_to_hard=float(moved.easy_to_hard),
        hard_to_easy=float(moved.hard_to_easy),
        acceptance_loading=parameters.acceptance_loading * stretch,
        chain_loading=parameters.chain_loading * stretch,
        length_slope=parameters.length_slope / stretch + float(move[2]),
        skew=float(move[3]),
    )


def _figures_of(parameters: Parameters, evidence: Evidence) -> Figures:
    outputs = Outputs(evidence.output_tokens, np.zeros(evidence.num_requests, dtype=np.bool_))
    copies = max(1, WALKS_WANTED // evidence.num_requests)
    return figures(*simulate_walks(parameters, evidence.gamma, outputs.repeated(copies), seed=1))


def _match_runaways(parameters: Parameters, evidence: Evidence) -> Parameters:
    """Step 3: the shift at which the model's runaways emit as many tokens a cycle on average."""
    wanted = float(np.mean(evidence.output_tokens / np.maximum(evidence.cycles, 1)))

    def excess(shift: float) -> float:
        shifted = parameters._replace(runaway_shift=shift)
        ease = typical_ease(shifted, runaway=True)
        matrices = cycle_matrices(chain_at(shifted, ease), evidence.gamma)
        return float(mean_tokens(matrices).mean()) - wanted

    low, high = excess(-LARGEST_SHIFT), excess(LARGEST_SHIFT)
    if low >= 0.0 or high <= 0.0:
        shift = -LARGEST_SHIFT if low >= 0.0 else LARGEST_SHIFT
    else:
        shift = float(brentq(excess, -LARGEST_SHIFT, LARGEST_SHIFT))
    return parameters._replace(runaway_shift=shift)
