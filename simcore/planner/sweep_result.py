"""What a sweep found: every run, every configuration, and the best of each load."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from simcore.metrics.estimate import estimate
from simcore.planner.race import LEVEL, Standings, Values, standings
from simcore.planner.run_table import LARGEST, METRICS
from simcore.planner.sweep_grid import Configuration, Omission
from simcore.planner.sweep_space import LOAD, SweepSpace

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["best", "indistinguishable", "worse", "unknown"]


@dataclass(frozen=True)
class SweepResult:
    """Tables of one sweep, in the order of its combinations; the same whoever ran it.

    `runs`: one row a run; the axes' values, then the columns of the store. `configurations`: one
    row a configuration; mean of every metric over its seeds, the objective's 95 % interval, and its
    verdict among those that meet the same load. `best`: the best of each load, and how many
    cannot be told from it.
    """

    space: SweepSpace
    origin: dict[str, Any]
    runs: "pd.DataFrame"
    configurations: "pd.DataFrame"
    best: "pd.DataFrame"
    invalid: tuple[Omission, ...]
    merged: tuple[Omission, ...]
    pruned: tuple[Omission, ...]
    caveats: tuple[str, ...]
    num_simulated: int
    num_reused: int

    def as_json(self) -> dict[str, Any]:
        """Everything but the single runs, as JSON."""
        omitted = {
            name: [{"labels": each.labels, "reason": each.reason} for each in getattr(self, name)]
            for name in ("invalid", "merged", "pruned")
        }
        tables = {
            name: json.loads(getattr(self, name).to_json(orient="records", double_precision=15))
            for name in ("configurations", "best")
        }
        return {
            "origin": self.origin,
            "space": self.space.model_dump(mode="json", by_alias=True),
            **tables,
            **omitted,
            "caveats": list(self.caveats),
            "num_simulated": self.num_simulated,
            "num_reused": self.num_reused,
        }


def objective_values(space: SweepSpace, rows: "pd.DataFrame") -> Values:
    """The objective of one configuration by seed; NaN where a run has none."""
    return np.asarray(rows[space.objective], dtype=np.float64)


def rank(
    space: SweepSpace, values: dict[int, Values], level: float = LEVEL
) -> Standings | None:
    """Standings of the configurations under one load; None where no run has the objective."""
    return standings(values, larger_is_better=space.objective in LARGEST, level=level)


def verdicts_of(standing: Standings | None, indices: Iterable[int]) -> dict[int, Verdict]:
    """What each configuration under one load is."""
    if standing is None:
        return dict.fromkeys(indices, "unknown")
    return {
        standing.best: "best",
        **dict.fromkeys(standing.indistinguishable, "indistinguishable"),
        **dict.fromkeys(standing.worse, "worse"),
    }


def configuration_table(
    space: SweepSpace,
    configurations: dict[int, Configuration],
    rows: dict[int, "pd.DataFrame"],
    verdicts: dict[int, Verdict],
) -> "pd.DataFrame":
    """One row a configuration."""
    import pandas as pd  # noqa: PLC0415 - kept out of the start-up of runs without frames

    found = []
    for index, frame in rows.items():
        objective = estimate([None if np.isnan(v) else v for v in objective_values(space, frame)])
        means = frame[list(METRICS)].astype(float).mean()  # of the seeds that have a value
        found.append(
            {
                "configuration": index,
                **configurations[index].labels,
                "verdict": verdicts[index],
                "num_seeds": len(frame),
                space.objective: objective.mean,
                f"{space.objective}_low": objective.low,
                f"{space.objective}_high": objective.high,
                **{name: float(means[name]) for name in METRICS if name != space.objective},
            }
        )
    return pd.DataFrame(found)


def best_table(space: SweepSpace, table: "pd.DataFrame", questions: list[str]) -> "pd.DataFrame":
    """One row a load: the best configuration there; `questions` by row of `table`."""
    import pandas as pd  # noqa: PLC0415 - as above

    found = []
    for _, group in table.groupby(np.array(questions), sort=False):
        best = group[group["verdict"] == "best"]
        if best.empty:  # no run under this load has the objective
            continue
        row = best.iloc[0].to_dict()
        same = group[group["verdict"] == "indistinguishable"]["configuration"].tolist()
        del row["verdict"]
        found.append(row | {"num_compared": len(group), "indistinguishable": same})
    return pd.DataFrame(found)


def asked_labels(labels: dict[str, Any]) -> dict[str, Any]:
    """Those of the axes that say what is asked of the service: its load, sampling, objective."""
    shared = ("workload.", "contract", "sampling", "slo", "warmup_fraction")
    return {k: v for k, v in labels.items() if k == LOAD or k.startswith(shared)}
