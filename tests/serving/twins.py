"""Recordings of the same outputs under two proposers, so that a ladder may go from one to another.

Ranks reach to the third candidate, and confidences say how sure a draft is.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from simcore.profile.store import StoredProfile, write_profile
from tests.factories import MAX_GAMMA, Recording, make_profile

NUM_DOMAINS = 2
GREEDY_NGRAM, GREEDY_DRAFT = (0, 4)  # first record of each; tests/factories.py counts them so
LIKELY_RANKS = (0.6, 0.2, 0.1, 0.1)  # of the realised token; the last: no candidate at all


def make_twins(folder: Path) -> StoredProfile:
    """The invented profile, its draft model recorded on the outputs of its n-gram proposer."""
    stored = make_profile(folder / "apart", Recording())
    rows = stored.traces.to_pandas()
    others = rows[~rows["record"].isin(range(GREEDY_DRAFT, GREEDY_DRAFT + NUM_DOMAINS))]
    twins = [
        _recorded_again(rows[rows["record"] == GREEDY_NGRAM + domain], GREEDY_DRAFT + domain)
        for domain in range(NUM_DOMAINS)
    ]
    return write_profile(
        stored.profile,
        folder / "together",
        cost=stored.cost_samples.to_pandas(),
        traces=pd.concat([others, *twins]).sort_values(
            ["record", "request", "start"], kind="stable", ignore_index=True
        ),
    )


def _recorded_again(rows: pd.DataFrame, record: int) -> pd.DataFrame:
    """The same outputs with ranks of their own; a token's rank is the same from every start."""
    rng = np.random.default_rng(record)
    parts = []
    for _, request in rows.groupby("request"):
        count = len(request) + MAX_GAMMA
        ranks = rng.choice(len(LIKELY_RANKS), size=count, p=LIKELY_RANKS)
        sure = np.where(ranks == 0, rng.uniform(0.6, 1.0, count), rng.uniform(0.1, 0.5, count))
        windows = [slice(start, start + MAX_GAMMA) for start in range(len(request))]
        again = request.assign(
            record=record,
            rank=[ranks[window].tolist() for window in windows],
            confidence=[sure[window].tolist() for window in windows],
            accepted=[int(np.argmax(np.append(ranks[window] > 0, True))) for window in windows],
        )
        parts.append(again)
    return pd.concat(parts)
