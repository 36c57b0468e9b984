"""What a sweep found: every run, every configuration, and the best of each load."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from simcore.metrics.estimate import estimate
from simcore.planner.race import Standings, Values, standings
from simcore.planner.run_table import LARGEST, METRICS
from simcore.planner.sweep_grid import Grid, Omission
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


def objective_values(space: SweepSpace, rows: "pd.DataFrame") -> dict[int, Values]:
    """Configuration -> the objective by seed; NaN where a run has none."""
    groups = rows.groupby("configuration", sort=False)[space.objective]
    return {int(str(index)): found.to_numpy(dtype=np.float64) for index, found in groups}


def with_labels(rows: "pd.DataFrame", grid: Grid) -> "pd.DataFrame":
    """Rows that begin with a column `configuration`, with the axes' values behind it."""
    import pandas as pd  # noqa: PLC0415 - kept out of the start-up of runs without frames

    labels = pd.DataFrame([grid.configurations[each].labels for each in rows["configuration"]])
    return pd.concat([rows[["configuration"]], labels, rows.iloc[:, 1:]], axis=1)


def rank(space: SweepSpace, values: dict[int, Values], level: float) -> Standings | None:
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
    space: SweepSpace, grid: Grid, rows: "pd.DataFrame", verdicts: dict[int, Verdict]
) -> "pd.DataFrame":
    """One row a configuration; means are over the seeds that have a value."""
    import pandas as pd  # noqa: PLC0415 - as above

    groups = rows.groupby("configuration", sort=False)
    means = groups[list(METRICS)].mean().reset_index()
    found = with_labels(means, grid)
    estimates = [
        estimate([None if np.isnan(each) else each for each in values])
        for values in objective_values(space, rows).values()
    ]
    shown = {
        "verdict": [verdicts[index] for index in found["configuration"]],
        "num_seeds": groups.size().to_numpy(),
        space.objective: found.pop(space.objective),
        f"{space.objective}_low": [each.low for each in estimates],
        f"{space.objective}_high": [each.high for each in estimates],
    }
    place = 1 + len(space.axes)
    parts = [found.iloc[:, :place], pd.DataFrame(shown), found.iloc[:, place:]]
    return pd.concat(parts, axis=1)


def best_table(table: "pd.DataFrame", questions: list[str]) -> "pd.DataFrame":
    """One row a load: the best configuration there; `questions` by row of `table`."""
    import pandas as pd  # noqa: PLC0415 - as above

    found = []
    for _, group in table.groupby(np.array(questions), sort=False):
        best = group[group["verdict"] == "best"]
        if best.empty:  # no run under this load has the objective
            continue
        row = best.drop(columns="verdict").to_dict("records")[0]
        same = group[group["verdict"] == "indistinguishable"]["configuration"].tolist()
        found.append(row | {"num_compared": len(group), "indistinguishable": same})
    return pd.DataFrame(found)


def asked_labels(labels: dict[str, Any]) -> dict[str, Any]:
    """Those of the axes that say what is asked of the service: its load, sampling, objective."""
    shared = ("workload.", "contract", "sampling", "slo", "warmup_fraction")
    return {k: v for k, v in labels.items() if k == LOAD or k.startswith(shared)}
