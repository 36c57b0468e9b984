"""Everything at once: whatever a deployment combines, the laws hold in every mode."""

from hypothesis import given
from hypothesis import strategies as st

from simcore.engines import RULES
from tests.factories import make_scenario
from tests.invariants import check_every_mode

TREE = [-1, -1, 0, 0, 1, 2]
LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 30, "cv": 0.8, "max_tokens": 100},
    "output": {"mean_tokens": 30, "cv": 0.8, "max_tokens": 100},
}


def _ladder(*rungs: dict) -> dict:
    return {"kind": "memory_pressure", "ladder": list(rungs), "hysteresis": 0.02}


SPECULATIONS = {
    "chain": {"num_speculative_tokens": 4},
    "tree": {"num_speculative_tokens": 3, "tree": TREE},
    "proposes more": {"num_speculative_tokens": 3, "tree": TREE, "num_proposed_tokens": 12},
    "narrower": {
        "num_speculative_tokens": 3,
        "tree": TREE,
        "num_proposed_tokens": 9,
        "policy": _ladder(
            {"below": 0.6, "num_draft_tokens": 4},
            {"below": 0.4, "num_draft_tokens": 2},
            {"below": 0.2, "num_speculative_tokens": 0},
        ),
    },
    "another proposer": {
        "num_speculative_tokens": 5,
        "policy": _ladder(
            {"below": 0.6, "num_speculative_tokens": 3},
            {"below": 0.5, "num_speculative_tokens": 4, "proposer": "ngram"},
            {"below": 0.2, "num_speculative_tokens": 0},
        ),
    },
    "adaptive verification": {
        "num_speculative_tokens": 6,
        "policy": {"kind": "adaptive_verification"},
    },
    "moving average": {
        "num_speculative_tokens": 5,
        "policy": {"kind": "adaptive_ema", "candidates": [0, 2, 5], "probe_interval": 7},
    },
    "gate": {
        "num_speculative_tokens": 3,
        "tree": TREE,
        "policy": {"kind": "acceptance_gate", "window_steps": 9, "threshold": 0.3},
    },
    "oracle": {"num_speculative_tokens": 6, "policy": {"kind": "oracle"}},
    "off": {"num_speculative_tokens": 0},
}
POOLS = (
    {},
    {"draft_pool": "own"},
    {"draft_pool": "own", "draft_block_size": 8},
    {"draft_pool": "own", "draft_kv_fraction": 0.06},
)
FAILURES = (
    {},
    {
        "outages": [
            {"replica": 0, "at_s": 1.03, "for_s": 2.0},
            {"replica": 1, "at_s": 2.5, "for_s": 4.0},
            {"replica": 0, "at_s": 4.0, "for_s": 0.01},
        ]
    },
    {"mean_time_between_s": 3.0, "mean_repair_s": 1.0},
    {"mean_time_between_s": 1.5, "mean_repair_s": 2.0, "requests": "fail"},
)
DOMAINS = (
    {},
    {"chat": {"priority": 2}, "code": {"priority": -1}},
    {"chat": {"shared_prefix_tokens": 20}, "code": {"priority": 1}},
)
SESSIONS = (
    None,
    {"mean_turns": 3, "max_turns": 6, "think": {"mean_s": 0.3}},
)


@given(
    speculation=st.sampled_from(sorted(SPECULATIONS)),
    plain_fraction=st.sampled_from([0.0, 0.3]),
    pool=st.sampled_from(POOLS),
    failures=st.sampled_from(FAILURES),
    domains=st.sampled_from(DOMAINS),
    sessions=st.sampled_from(SESSIONS),
    deployment=st.fixed_dictionaries(
        {
            "preset": st.sampled_from(sorted(RULES)),
            "replicas": st.integers(2, 3),
            "scheduling": st.sampled_from(["fcfs", "priority"]),
            "routing": st.sampled_from(["round_robin", "least_outstanding", "session_affinity"]),
            "watermark": st.sampled_from([0.0, 0.1, 0.6]),
            "max_queue": st.sampled_from([None, 4]),
            "kv_cache_tokens": st.sampled_from([200, 500, 5000]),
            "block_size": st.sampled_from([1, 8, 16]),
            "max_num_seqs": st.integers(1, 8),
            "max_num_batched_tokens": st.integers(72, 160),
        }
    ),
    patience_s=st.sampled_from([None, 0.4, 3.0]),
    seed=st.integers(0, 2**30),
)
def test_every_law_holds_whatever_is_combined(
    twin_profile,
    speculation,
    plain_fraction,
    pool,
    failures,
    domains,
    sessions,
    deployment,
    patience_s,
    seed,
):
    if RULES[deployment["preset"]].has_fixed_slots:
        pool = {}  # refused: tests/serving/test_draft_pools.py
    shares_prefixes = sessions is not None or "shared_prefix_tokens" in domains.get("chat", {})
    scenario = make_scenario(
        twin_profile,
        **{
            "workload.lengths": LENGTHS,
            "workload.arrivals": {"kind": "poisson", "rate_per_s": 12.0},
            "workload.num_requests": 30,
            "workload.domains": domains,
            "workload.sessions": sessions,
            "workload.patience_s": patience_s,
            "speculation": {
                "proposer": "draft_model",
                "plain_fraction": plain_fraction,
                **SPECULATIONS[speculation],
            },
            "deployment": {
                **deployment,
                **pool,
                "failures": failures,
                "prefix_caching": not (shares_prefixes and len(pool) > 1),
            },
            "seed": seed,
        },
    )
    check_every_mode(scenario, twin_profile)
