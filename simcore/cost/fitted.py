"""What the law says of the very samples that it was fitted to, and how far off it is."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from simcore.cost.law import CostLaw
from simcore.cost.price import LawTables, law_tables, price
from simcore.cost.shape import StepShape

PHASES = ("propose", "target", "reconcile", "overhead")  # in the order of `price`


def fitted_samples(law: CostLaw, samples: pd.DataFrame) -> pd.DataFrame:
    """The samples (docs/reference/profile-format.md, `cost.parquet`) beside the law.

    Added: `step_tokens` (batch × query tokens), `is_prefill`, `fitted_s`, and `residual_rel`
    (fitted / measured − 1). A proposer that the law does not know has no fitted time (NaN).
    """
    found = samples.reset_index(drop=True)
    batch, query = found["batch_size"], found["num_query_tokens"]
    drafts = found["num_speculative_tokens"]
    # Samples time each phase alone: nothing of one is hidden behind another.
    alone = law.model_copy(update={"host_overlap": 0.0, "proposer_runs": {}})
    tables = {name: law_tables(alone, name) for name in (None, *law.propose)}
    fitted = [_fitted_s(law, tables, row) for row in found.to_dict("records")]
    found = found.assign(
        step_tokens=batch * query,
        # A prefill chunk scores several tokens and drafts none; so does a proposer's own prefill.
        is_prefill=(query > 1) & (drafts == 0) & found["phase"].isin(["target", "propose"]),
        fitted_s=np.array(fitted, dtype=np.float64),
    )
    return found.assign(residual_rel=found["fitted_s"] / found["median_s"] - 1.0)


def _fitted_s(law: CostLaw, tables: dict[str | None, LawTables], row: dict[Hashable, Any]) -> float:
    proposer = row["proposer"] if isinstance(row["proposer"], str) else None
    if proposer is not None and proposer not in law.propose:
        return float("nan")
    batch, query, context, gamma = (
        float(row[name])
        for name in ("batch_size", "num_query_tokens", "context_tokens", "num_speculative_tokens")
    )
    if row["phase"] == "propose" and gamma == 0.0:
        run = law.proposer_runs.get(proposer or "")
        return 0.0 if run is None else run.per_prefill_token_s * batch * query
    shape = _shape(batch, query, context, gamma)
    return price(tables[proposer], shape)[PHASES.index(str(row["phase"]))]


def _shape(batch: float, query: float, context: float, gamma: float) -> StepShape:
    is_prefill = query > 1.0 and gamma == 0.0
    kv, tokens = batch * context, batch * query
    return StepShape(
        num_requests=batch,
        num_decoding=0.0 if is_prefill else batch,
        gamma=gamma,
        proposed_tokens=batch * gamma,
        verified_tokens=batch * gamma,
        query_tokens=tokens,
        plain_context_tokens=kv if query == 1.0 else 0.0,
        verify_context_tokens=kv if query > 1.0 else 0.0,
        prefill_tokens=tokens if is_prefill else 0.0,
        lagging_tokens=0.0,
        attention_pairs=query * (kv + tokens / 2.0) if query > 1.0 else 0.0,
    )
