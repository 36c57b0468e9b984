"""Predict: every cell of a study in the simulator, from the calibrated profile alone.

The simulator gets the arrival times and lengths of the requests that the engine will get. What
is random beside them, acceptance, is averaged over seeds. What the server takes to answer beside
its steps (HTTP, threads) was measured in the calibration and is added to every request.
"""

import csv
import json
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import numpy as np

from simcore import Scenario, simulate
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import parse_scenario
from simcore.version import specplan_version
from tests.engines.client import Prompt
from tests.engines.figures import figures, mean_figures
from tests.engines.studies import Condition, Study, requests

NUM_SEEDS = 5
Result = TypeVar("Result")


def predict(study: Study, ids: list[list[int]], folder: Path) -> dict[str, object]:
    """The prediction of every cell, and the request rates that the loads come to.

    `ids`: every prompt of the study. Reads the profiles in `folder`.
    """
    checked = ids[1::2]
    facts = json.loads((folder / "calibration.json").read_text(encoding="utf-8"))
    delay_s = facts["answering_delay_s"]
    profiles = {kind: load_profile(str(folder / kind)) for kind in study.kinds()}
    cells, rates_per_s = {}, {}
    for load, share in study.loads.items():
        prompts, unit_s = requests(study, checked, load)
        plain = study.conditions[0]
        capacity_per_s = _capacity_per_s(study, plain, profiles, prompts)
        rates_per_s[load] = float(f"{share * capacity_per_s:.3g}")
        arrival_s = unit_s / rates_per_s[load]
        for condition in study.conditions:
            stored = _profile_of(condition, profiles)
            cells[f"{condition.name}/{load}"] = _predict_cell(
                study, condition, stored, prompts, arrival_s, delay_s
            )
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"python -m tests.engines predict {study.name}",
        "specplan": specplan_version(),
        "seeds": list(range(NUM_SEEDS)),
        "prompts": "those of odd index",
        "answering_delay_s": delay_s,
        "rates_per_s": rates_per_s,
        "cells": cells,
    }


def scenario_of(
    study: Study, condition: Condition, stored: StoredProfile, arrivals: dict[str, object]
) -> Scenario:
    """A cell as a scenario; `arrivals` as in its file, lengths those of the recorded rows."""
    speculates = condition.kind != "off"
    return parse_scenario(
        {
            "name": f"{study.name} {condition.name}",
            "profile": str(stored.folder),
            "contract": "greedy_equality",
            "workload": {
                "arrivals": arrivals,
                "lengths": {"kind": "file_rows"},
                "domains": {condition.domain: 1.0} if speculates else {},
                "num_requests": None,
            },
            "deployment": {
                "preset": "llama_cpp",
                "max_num_seqs": study.num_slots,
                "kv_cache_tokens": study.num_slots * study.slot_tokens,
            },
            "speculation": {"proposer": condition.kind, "num_speculative_tokens": condition.gamma}
            if speculates
            else {"num_speculative_tokens": 0},
            "warmup_fraction": 0.0,
        },
        "a cell",
    )


def _profile_of(condition: Condition, profiles: dict[str, StoredProfile]) -> StoredProfile:
    """Plain decoding is priced alike by every profile of the study."""
    return profiles.get(condition.kind) or next(iter(profiles.values()))


def _predict_cell(
    study: Study,
    condition: Condition,
    stored: StoredProfile,
    prompts: list[Prompt],
    arrival_s: np.ndarray,
    delay_s: float,
) -> dict[str, float]:
    def run(path: Path) -> dict[str, float]:
        scenario = scenario_of(study, condition, stored, {"kind": "recorded", "path": str(path)})
        seeds = range(NUM_SEEDS if condition.kind != "off" else 1)
        return mean_figures(
            [_figures(scenario.with_(seed=seed), stored, delay_s) for seed in seeds]
        )

    return _with_rows(prompts, arrival_s, run)


def _capacity_per_s(
    study: Study,
    condition: Condition,
    profiles: dict[str, StoredProfile],
    prompts: list[Prompt],
) -> float:
    """Requests a second when all are there from the beginning."""
    stored = _profile_of(condition, profiles)

    def run(path: Path) -> float:
        scenario = scenario_of(study, condition, stored, {"kind": "recorded", "path": str(path)})
        records = simulate(scenario, stored=stored).request_records
        return len(prompts) / float(records["finish_s"].max())

    return _with_rows(prompts, np.arange(len(prompts)) * 1e-6, run)


def _with_rows(
    prompts: list[Prompt], arrival_s: np.ndarray, run: Callable[[Path], Result]
) -> Result:
    """What `run` makes of the requests as a recorded file."""
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "requests.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["arrival_s", "prompt_tokens", "output_tokens"])
            for prompt, at_s in zip(prompts, arrival_s, strict=True):
                writer.writerow([repr(float(at_s)), len(prompt.ids), prompt.output_tokens])
        return run(path)


def _figures(scenario: Scenario, stored: StoredProfile, delay_s: float) -> dict[str, float]:
    records = simulate(scenario, stored=stored).request_records
    assert (records["emitted_tokens"] == records["output_tokens"]).all()
    return figures(
        records["arrival_s"],
        records["first_token_s"] + delay_s,
        records["finish_s"] + delay_s,
        records["output_tokens"],
        accepted_tokens=int(records["accepted_tokens"].sum()),
        num_cycles=int(records["num_cycles"].sum()),
    )
