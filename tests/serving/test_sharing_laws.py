"""The laws where requests follow one another, share blocks, give up and are preempted.

The first of a list is what Hypothesis tries most: a crowd that shares, short of memory.
"""

from hypothesis import assume, given
from hypothesis import strategies as st

from simcore.engines import RULES
from tests.factories import make_scenario
from tests.invariants import check_every_mode

THINK = st.builds(
    lambda mean_s, cv: {"mean_s": mean_s, "cv": cv},
    st.sampled_from([0.02, 0.0, 1.0]),
    st.sampled_from([1.0, 0.0, 4.0]),
)
LOADS = st.one_of(
    st.builds(
        lambda clients, think: {
            "workload.arrivals": {
                "kind": "closed_loop",
                "num_clients": clients,
                "think": think,
            }
        },
        st.sampled_from([12, 3, 90, 1]),
        THINK,
    ),
    st.builds(
        lambda rate, turns, think, keeps_history: {
            "workload.arrivals": {"kind": "poisson", "rate_per_s": rate},
            "workload.sessions": {
                "mean_turns": turns,
                "max_turns": 6,
                "think": think,
                "keeps_history": keeps_history,
            },
        },
        st.sampled_from([500.0, 5.0, 0.5]),
        st.sampled_from([2.0, 4.5, 1.0]),
        THINK,
        st.booleans(),
    ),
    st.just({"workload.arrivals": {"kind": "batch"}}),
)
DOMAINS = st.fixed_dictionaries(
    {
        name: st.builds(
            lambda tokens, prefixes, priority: {
                "shared_prefix_tokens": tokens,
                "num_prefixes": prefixes,
                "priority": priority,
            },
            st.sampled_from([48, 20, 1000, 0]),
            st.integers(1, 3),
            st.integers(0, 1),
        )
        for name in ("chat", "code")
    }
)
POLICIES = st.sampled_from(
    [
        {"kind": "fixed"},
        {"kind": "batch_size_table", "table": [[1, 2, 3], [3, 100, 0]]},
        {"kind": "memory_pressure"},
    ]
)
DEPLOYMENTS = {
    "deployment.preset": st.sampled_from(list(RULES)),
    "deployment.block_size": st.sampled_from([4, 16, 1]),
    "deployment.kv_cache_tokens": st.sampled_from([400, 250, 900, 150, 100_000]),
    "deployment.max_num_seqs": st.sampled_from([8, 5, 2, 1]),
    "deployment.max_num_batched_tokens": st.sampled_from([200, 64, 40]),
    "deployment.max_queue": st.sampled_from([None, None, 20, 3, 0]),
    "deployment.replicas": st.integers(1, 3),
    "deployment.routing": st.sampled_from(["round_robin", "least_outstanding", "session_affinity"]),
    "deployment.scheduling": st.sampled_from(["fcfs", "priority"]),
    "deployment.watermark": st.sampled_from([0.0, 0.1]),
    "deployment.draft_pool": st.sampled_from(["auto", "shared", "own"]),
    "deployment.prefix_caching": st.sampled_from([True, True, True, False]),
    "workload.domains": DOMAINS,
    "workload.num_requests": st.sampled_from([60, 40, 15, 3, 1]),
    "workload.patience_s": st.sampled_from([None, None, 20.0, 5.0, 1.0, 0.05]),
    "speculation.proposer": st.sampled_from(["ngram", "draft_model"]),
    "speculation.num_speculative_tokens": st.integers(3, 4),
    "speculation.policy": POLICIES,
    "speculation.plain_fraction": st.sampled_from([0.0, 0.3]),
    "seed": st.integers(0, 2**40),
}


@given(load=LOADS, changes=st.fixed_dictionaries(DEPLOYMENTS))
def test_every_law_holds_whoever_follows_and_shares(recorded_profile, load, changes):
    blocks = changes["deployment.kv_cache_tokens"] // changes["deployment.block_size"]
    seats_fit = blocks // 2 >= changes["deployment.max_num_seqs"]
    assume(changes["deployment.preset"] != "llama_cpp" or seats_fit)
    scenario = make_scenario(recorded_profile, **{**load, **changes})
    check_every_mode(scenario, recorded_profile)
