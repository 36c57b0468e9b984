"""Attention padded to the widest and longest request of a decoding batch."""

from dataclasses import replace

import numpy as np
import pytest

from simcore.scenario import parse_scenario
from simcore.serving.simulation import simulate
from tests.factories import Recording, make_profile

PROMPTS = (10, 50)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return make_profile(tmp_path_factory.mktemp("padded") / "profile", Recording(acceptance=0.5))


def padded(stored):
    """The same profile of an engine that pads."""
    profile = stored.profile
    target = profile.cost.target.model_copy(
        update={"pads_attention": True, "per_attention_pair_s": 1e-6}
    )
    return with_target(stored, target), with_target(
        stored, target.model_copy(update={"pads_attention": False})
    )


def with_target(stored, target):
    cost = stored.profile.cost.model_copy(update={"target": target})
    return replace(stored, profile=stored.profile.model_copy(update={"cost": cost}))


def steps_of(stored, tmp_path, prompts, gamma):
    path = tmp_path / "requests.csv"
    rows = "".join(f"{prompt},20\n" for prompt in prompts)
    path.write_text("prompt_tokens,output_tokens\n" + rows, encoding="utf-8")
    speculation = {"proposer": "ngram", "num_speculative_tokens": gamma} if gamma else {}
    scenario = parse_scenario(
        {
            "name": "padded",
            "profile": "given",
            "contract": "greedy_equality",
            "sampling": {"temperature": 0.0},
            "workload": {
                "arrivals": {"kind": "batch"},
                "lengths": {"kind": "file_rows", "file": {"path": str(path)}},
                "num_requests": None,
            },
            "deployment": {"kv_cache_tokens": 4000},
            "speculation": speculation,
            "warmup_fraction": 0.0,
        },
        "the padded scenario",
    )
    return simulate(scenario, stored=stored).step_records


@pytest.mark.parametrize("gamma", [0, 3])
def test_equal_requests_cost_the_same_padded_or_not(stored, tmp_path, gamma):
    pads, ragged = padded(stored)
    alike = [steps_of(which, tmp_path, (30,), gamma) for which in (pads, ragged)]
    assert np.array_equal(alike[0], alike[1])


def test_a_plain_step_reads_the_longest_context_for_everyone(stored, tmp_path):
    pads, ragged = padded(stored)
    with_padding, without = (steps_of(which, tmp_path, PROMPTS, 0) for which in (pads, ragged))
    per_token_s = stored.profile.cost.target.per_kv_token_plain_s
    both = with_padding["num_decoding"] == 2
    assert both.sum() == 19
    extra_s = with_padding["target_s"][both] - without["target_s"][both]
    assert extra_s == pytest.approx(per_token_s * (PROMPTS[1] - PROMPTS[0]))
    assert np.array_equal(with_padding["context_tokens"], without["context_tokens"])
    reads = with_padding["prefill_tokens"] > 0
    assert with_padding["target_s"][reads] == pytest.approx(without["target_s"][reads])


def test_drafting_for_one_request_costs_attention_for_all(stored, tmp_path):
    pads, ragged = padded(stored)
    with_padding, without = (steps_of(which, tmp_path, PROMPTS, 3) for which in (pads, ragged))
    both = (with_padding["num_decoding"] == 2) & (with_padding["prefill_tokens"] == 0)
    assert both.any()
    assert (with_padding["target_s"][both] > without["target_s"][both]).all()
