"""Fit the cost law to timed samples: non-negative least squares on relative error.

Every coefficient is a physical cost, so none may be negative; each sample weighs by the inverse
of its own time, so a step of 20 ms and one of 2 s count alike. The published error is that of
samples the fit did not see (cross-validation over shapes).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

from simcore.cost.law import CostDomain, CostLaw, FitError, LinearLaw, ProposerRun, TargetLaw
from simcore.errors import ProfileError

NUM_FOLDS = 5
Features = NDArray[np.float64]


def fit_cost(
    samples: pd.DataFrame, proposers: Sequence[str], *, pads_attention: bool = False
) -> CostLaw:
    """The cost law of timed samples (columns: docs/reference/profile-format.md, `cost.parquet`).

    `pads_attention` is a fact of the engine; samples of equal requests do not show it.
    Raises ProfileError where a phase has too few samples to hold any out.
    """
    errors: dict[str, FitError] = {}
    target, errors["target"] = fit_target(samples)
    propose: dict[str, LinearLaw] = {}
    runs: dict[str, ProposerRun] = {}
    for name in proposers:
        _fit_proposer(_rows(samples, "propose", name), name, propose, runs, errors)
    reconcile, errors["reconcile"] = _fit(_rows(samples, "reconcile"), _reconcile_features)
    overhead = samples.loc[samples["phase"] == "overhead", "median_s"]
    return CostLaw(
        target=target.model_copy(update={"pads_attention": pads_attention}),
        propose=propose,
        proposer_runs=runs,
        reconcile=LinearLaw(**dict(zip(RECONCILE_TERMS, reconcile, strict=True))),
        overhead_s=float(overhead.median()) if len(overhead) else 0.0,
        domain=_domain(_rows(samples, "target")),
        held_out_error=errors,
    )


def fit_imported(samples: pd.DataFrame, proposers: Sequence[str]) -> CostLaw:
    """The cost law of samples that need not hold every phase: an absent one costs nothing.

    Samples of whole steps are given as target passes, so that drafting is inside the law. Where no
    request of any sample scored several tokens (or none scored one), reading the KV cache is
    taken to cost what the other kind does. Raises ProfileError where a phase has too few samples.
    """
    target, error = fit_target(samples)
    rows = _rows(samples, "target")
    plain, verify = target.per_kv_token_plain_s, target.per_kv_token_verify_s
    if not (rows["num_query_tokens"] > 1).any():
        verify = plain
    if not (rows["num_query_tokens"] == 1).any():
        plain = verify
    changes = {"per_kv_token_plain_s": plain, "per_kv_token_verify_s": verify}
    held = samples[samples["phase"].isin(["propose", "reconcile"])]
    errors, propose, reconcile = {"target": error}, dict[str, LinearLaw](), LinearLaw()
    runs: dict[str, ProposerRun] = {}
    for name in proposers:
        propose[name] = LinearLaw()
        if (held["proposer"] == name).any():
            _fit_proposer(_rows(samples, "propose", name), name, propose, runs, errors)
    if (held["phase"] == "reconcile").any():
        values, errors["reconcile"] = _fit(_rows(samples, "reconcile"), _reconcile_features)
        reconcile = LinearLaw(**dict(zip(RECONCILE_TERMS, values, strict=True)))
    overhead = samples.loc[samples["phase"] == "overhead", "median_s"]
    return CostLaw(
        target=target.model_copy(update=changes),
        propose=propose,
        proposer_runs=runs,
        reconcile=reconcile,
        overhead_s=float(overhead.median()) if len(overhead) else 0.0,
        domain=_domain(rows),
        held_out_error=errors,
    )


def fit_target(samples: pd.DataFrame) -> tuple[TargetLaw, FitError]:
    """The law of target passes in one regime, and its held-out error; other phases are ignored."""
    rows = _rows(samples, "target")
    knots = _knots(rows)
    coefficients, error = _fit(rows, lambda some: _target_features(some, knots))
    return _target_law(coefficients, knots), error


def _fit_proposer(
    rows: pd.DataFrame,
    name: str,
    propose: dict[str, LinearLaw],
    runs: dict[str, ProposerRun],
    errors: dict[str, FitError],
) -> None:
    """Add the law of one proposer's calls, and the rate of its own prefill where it was timed."""
    drafts = rows["num_speculative_tokens"] > 0
    if not drafts.all():
        runs[name] = ProposerRun(per_prefill_token_s=_prefill_rate_s(rows[~drafts]))
        rows = rows[drafts]
    values, errors[f"propose.{name}"] = _fit(rows, _propose_features)
    propose[name] = LinearLaw(**dict(zip(PROPOSE_TERMS, values, strict=True)))


def _prefill_rate_s(rows: pd.DataFrame) -> float:
    """Seconds a prompt token of a proposer's own prefill: one rate, by relative least squares."""
    tokens = (rows["batch_size"] * rows["num_query_tokens"]).to_numpy(dtype=float)
    return float(_solve(tokens[:, None], rows["median_s"].to_numpy(dtype=float))[0])


def _rows(samples: pd.DataFrame, phase: str, proposer: str | None = None) -> pd.DataFrame:
    rows = samples[samples["phase"] == phase]
    if proposer is not None:
        rows = rows[rows["proposer"] == proposer]
    if len(rows) < 2 * NUM_FOLDS:
        raise ProfileError(
            f"{len(rows)} cost samples for phase {phase!r}"
            + (f" of proposer {proposer!r}" if proposer else "")
            + f"; expected at least {2 * NUM_FOLDS} shapes: measure more batches, contexts or γ"
        )
    return rows


def _fit(
    rows: pd.DataFrame, features: Callable[[pd.DataFrame], Features]
) -> tuple[list[float], FitError]:
    matrix = features(rows)
    seconds = rows["median_s"].to_numpy(dtype=float)
    fold = _folds(rows)
    relative = np.empty_like(seconds)
    for held_out in range(NUM_FOLDS):
        out = fold == held_out
        solution = _solve(matrix[~out], seconds[~out])
        relative[out] = np.abs(matrix[out] @ solution / seconds[out] - 1.0)
    error = FitError(
        num_samples=len(rows),
        median_rel=float(np.median(relative)),
        p90_rel=float(np.quantile(relative, 0.9)),
        max_rel=float(relative.max()),
    )
    return [float(value) for value in _solve(matrix, seconds)], error


def _solve(matrix: Features, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled = matrix / seconds[:, None]
    # Columns differ by ten orders of magnitude (1 against KV tokens); nnls wants them alike.
    norms = np.linalg.norm(scaled, axis=0)
    norms[norms == 0.0] = 1.0
    solution, _ = nnls(scaled / norms, np.ones(len(seconds)))
    return np.asarray(solution / norms)


def _folds(rows: pd.DataFrame) -> NDArray[np.int64]:
    """Fold of each row: shapes in order of cost, dealt round, so each fold spans the range."""
    order = rows["median_s"].rank(method="first").to_numpy(dtype=np.int64) - 1
    return np.asarray(order % NUM_FOLDS)


# --- target: f(tokens) + r·requests + s·scored + k·KV + attention pairs ------------------------


def _knots(rows: pd.DataFrame) -> NDArray[np.int64]:
    """Powers of two within the measured step tokens, its ends included.

    A segment that no sample bends is dropped: at least two distinct sizes lie in each.
    """
    tokens = np.unique(rows["batch_size"] * rows["num_query_tokens"])
    powers = 2 ** np.arange(0, int(np.ceil(np.log2(tokens[-1]))) + 1)
    inner = powers[(powers > tokens[0]) & (powers < tokens[-1])]
    kept = [int(tokens[0])]
    for knot in inner:
        if ((tokens > kept[-1]) & (tokens <= knot)).any() and (tokens > knot).any():
            kept.append(int(knot))
    return np.array([*kept, int(tokens[-1])])


def _target_features(rows: pd.DataFrame, knots: NDArray[np.int64]) -> Features:
    batch = rows["batch_size"].to_numpy(dtype=float)
    query = rows["num_query_tokens"].to_numpy(dtype=float)
    context = batch * rows["context_tokens"].to_numpy(dtype=float)
    tokens = batch * query
    rises = [np.clip(tokens - left, 0.0, right - left) for left, right in pairwise(knots)]
    plain = query == 1
    pairs = query * (context + tokens / 2) * ~plain
    # Without a prefill chunk every token is scored, and their cost cannot be told from f's.
    drafts = rows.get("num_speculative_tokens", rows["num_query_tokens"] - 1).to_numpy()
    prefill = ~plain & (drafts == 0)
    scored = np.where(prefill, batch, tokens) * prefill.any()
    columns = [np.ones_like(tokens), *rises, batch, scored]
    columns += [context * plain, context * ~plain, pairs]
    return np.column_stack(columns)


def _target_law(coefficients: list[float], knots: NDArray[np.int64]) -> TargetLaw:
    floor, *slopes = coefficients[:-5]
    per_request, scored, plain, verify, pair = coefficients[-5:]
    rises = np.array(slopes) * np.diff(knots)
    return TargetLaw(
        knot_tokens=tuple(int(knot) for knot in knots),
        knot_s=tuple(float(value) for value in floor + np.concatenate([[0.0], np.cumsum(rises)])),
        per_request_s=per_request,
        per_scored_token_s=scored,
        per_kv_token_plain_s=plain,
        per_kv_token_verify_s=verify,
        per_attention_pair_s=pair,
    )


# --- propose and reconcile: linear ------------------------------------------------------------

PROPOSE_TERMS = (
    "base_s",
    "per_pass_s",
    "per_request_s",
    "per_draft_token_s",
    "per_kv_token_s",
    "per_kv_token_pass_s",
)
RECONCILE_TERMS = ("base_s", "per_request_s", "per_draft_token_s")


def _propose_features(rows: pd.DataFrame) -> Features:
    batch = rows["batch_size"].to_numpy(dtype=float)
    passes = rows["num_speculative_tokens"].to_numpy(dtype=float)
    context = batch * rows["context_tokens"].to_numpy(dtype=float)
    one = np.ones_like(batch)
    return np.column_stack([one, passes, batch, batch * passes, context, context * passes])


def _reconcile_features(rows: pd.DataFrame) -> Features:
    batch = rows["batch_size"].to_numpy(dtype=float)
    drafts = batch * rows["num_speculative_tokens"].to_numpy(dtype=float)
    return np.column_stack([np.ones_like(batch), batch, drafts])


def _domain(target: pd.DataFrame) -> CostDomain:
    num_queries = target["num_query_tokens"]
    # Verification rows score one token more than they draft; prefill chunks draft nothing.
    decode = num_queries == target["num_speculative_tokens"] + 1
    return CostDomain(
        max_batch_size=int(target["batch_size"].max()),
        max_context_tokens=int(target["context_tokens"].max()),
        max_query_tokens_per_request=int(num_queries[decode].max()),
        max_step_tokens=int((target["batch_size"] * num_queries).max()),
    )
