"""Workloads in a few words."""

from pathlib import Path

import pytest

from simcore.scenario import Workload

DATA = Path(__file__).parent / "data"
HEADERS = {
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    "csv": "arrival_s,prompt_tokens,output_tokens",
}
FIXED = {"kind": "fixed", "prompt_tokens": 12, "output_tokens": 5}


def two_states(**changes):
    """Markov-modulated arrivals of 6.5 requests a second in the long run."""
    states = [
        {"rate_per_s": 20.0, "mean_dwell_s": 0.5},
        {"rate_per_s": 2.0, "mean_dwell_s": 1.5},
    ]
    return {"kind": "markov_modulated", "states": states} | changes


@pytest.fixture
def make_workload():
    """A workload of these arrivals; lengths are fixed unless given."""

    def make(arrivals, num_requests=20_000, lengths=None, **changes) -> Workload:
        raw = {"arrivals": arrivals, "lengths": lengths or FIXED, "num_requests": num_requests}
        return Workload.model_validate(raw | changes)

    return make


@pytest.fixture
def request_file(tmp_path):
    """A plain CSV of (arrival_s, prompt, output) rows."""

    def write(rows) -> str:
        path = tmp_path / "requests.csv"
        lines = [",".join(str(value) for value in row) for row in rows]
        path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *lines]))
        return str(path)

    return write
