"""Measure: the requests of every cell, sent to the real server at their times, twice."""

from datetime import UTC, datetime

import numpy as np

from tests.engines.calibrate import ENGINE_VERSION
from tests.engines.client import Answer, run_load
from tests.engines.figures import figures
from tests.engines.server import serve
from tests.engines.studies import Condition, Study, requests

REPEATS = 2


def measure(
    study: Study, condition: Condition, ids: list[list[int]], rates_per_s: dict[str, float]
) -> dict[str, object]:
    """The cells of one condition, each measured twice, the repeats a round apart."""
    cells: dict[str, list[dict[str, float]]] = {
        f"{condition.name}/{load}": [] for load in rates_per_s
    }
    began = datetime.now(UTC)
    with serve(study.setup(condition)) as address:
        for _ in range(REPEATS):
            for load, rate_per_s in rates_per_s.items():
                prompts, unit_s = requests(study, ids[1::2], load)
                arrival_s = unit_s / rate_per_s
                answers = run_load(address, prompts, list(arrival_s))
                found = figures_of(answers, [each.output_tokens for each in prompts])
                cells[f"{condition.name}/{load}"].append(found)
    return {
        "date": began.isoformat(timespec="seconds"),
        "command": f"python -m tests.engines measure {study.name} {condition.name}",
        "engine": ENGINE_VERSION,
        "measuring_s": (datetime.now(UTC) - began).total_seconds(),
        "cells": cells,
    }


def figures_of(answers: list[Answer], asked_tokens: list[int]) -> dict[str, float]:
    """The figures of answered requests; every one of them must have been answered in full."""
    tokens = [each.output_tokens for each in answers]
    if tokens != asked_tokens:
        raise RuntimeError("an answer is shorter or longer than was asked for")
    accepted = int(sum(each.timings.get("draft_n_accepted", 0) for each in answers))
    return figures(
        np.array([each.sent_s for each in answers]),
        np.array([each.first_s for each in answers]),
        np.array([each.last_s for each in answers]),
        tokens,
        accepted_tokens=accepted,
        num_cycles=sum(tokens) - len(tokens) - accepted,
    )
