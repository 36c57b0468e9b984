"""What each engine can do of a plan: exact settings, or a refusal with the nearest that it can."""

import json

import pytest
import yaml
from packaging.version import Version

from simcore.errors import SpecplanError
from simcore.planner.document import Plan
from simcore.report.abilities import Ability, fit, needs, parse_version
from simcore.report.engine import choice_of
from simcore.report.flags import ENGINES, engine_settings, shell_script
from simcore.report.tensorrt_llm_flags import CONFIG_FILE
from simcore.speculation import Speculation
from tests.report.test_flags import decided, given, proposer, run_script

TABLE = {"kind": "batch_size_table", "table": [[1, 4, 4], [9, 16, 2], [17, 40, 0]]}
RISING = {"kind": "batch_size_table", "table": [[1, 4, 2], [5, 64, 4]]}
TIERS = {"kind": "adaptive_ema", "tiers": {1: [1, 3], 8: [0, 1]}}
GATE = {"kind": "acceptance_gate", "threshold": 0.4, "window_steps": 200}
POLICIES = {
    "table": TABLE,
    "rising": RISING,
    "tiers": TIERS,
    "one tier": {"kind": "adaptive_ema", "candidates": [1, 3]},
    "gate": GATE,
    "goodput": {"kind": "goodput"},
    "memory": {"kind": "memory_pressure"},
    "verification": {"kind": "adaptive_verification"},
    "oracle": {"kind": "oracle"},
}
STATIC = {"tree": [-1, -1, 0, 2, 3], "num_speculative_tokens": 4}
DYNAMIC = {
    "dynamic_tree": {"topk": 4, "num_draft_tokens": 7},
    "num_speculative_tokens": 5,
}


def asked(plan: Plan, kind: str = "eagle", settings=None, sampled=False, **speculation) -> Plan:
    """The plan deciding for γ = 3, its scenario speculating in its own way."""
    raw = {"proposer": "it", "num_speculative_tokens": 4} | speculation
    found = given(
        decided(plan, 3, name="org/T", sampled=sampled),
        proposer(kind, "org/D", **(settings or {})),
    )
    scenario = found.scenario.model_copy(update={"speculation": Speculation.model_validate(raw)})
    return found.model_copy(update={"scenario": scenario})


def deployed(plan: Plan, **deployment) -> Plan:
    changes = {f"deployment.{key}": value for key, value in deployment.items()}
    return plan.model_copy(update={"scenario": plan.scenario.with_(**changes)})


def on_cpu(plan: Plan) -> Plan:
    raw = json.loads(plan.model_dump_json())
    raw["profile"]["identity"]["hardware"]["device"] = "cpu"
    return Plan.model_validate_json(json.dumps(raw))


def vllm_config(settings) -> dict:
    return json.loads(settings.argv[settings.argv.index("--speculative-config") + 1])


def trtllm(settings) -> dict:
    (file,) = settings.files
    assert file.name == CONFIG_FILE
    return yaml.safe_load(file.content)


def every_choice(plan: Plan):
    """One choice for every ability, alone and with others."""
    for kind in ("ngram", "draft_model", "eagle"):
        for policy in POLICIES.values():
            yield choice_of(asked(plan, kind, policy=policy))
        for tree in (STATIC, DYNAMIC):
            yield choice_of(asked(plan, kind, **tree))
            rows = [[1, 8, tree["num_speculative_tokens"]], [9, 64, 0]]
            table = {"kind": "batch_size_table", "table": rows}
            yield choice_of(asked(plan, kind, policy=table, **tree))
        yield choice_of(asked(plan, kind, {"parallel_drafting": 1}, sampled=True))
        yield choice_of(deployed(asked(plan, kind), scheduling="priority"))
        yield choice_of(on_cpu(asked(plan, kind)))


def test_the_choices_ask_for_every_ability(plan):
    found = {ability for choice in every_choice(plan) for ability in needs(choice)}
    assert found == set(Ability)


@pytest.mark.parametrize("name", ENGINES)
def test_the_nearest_of_every_choice_holds_no_limit(plan, name):
    engine = ENGINES[name]
    for text in (engine.first, engine.last):
        version = parse_version(engine.engine, text, engine.first)
        for choice in every_choice(plan):
            fitted = fit(choice, engine.limits, version)
            assert not any(limit.holds(fitted.choice, version) for limit in engine.limits)
            assert (fitted.refusal is None) == (fitted.choice is choice)
            engine.write(choice, version)


def test_a_table_becomes_vllms_rows_without_gaps_up_to_max_num_seqs(plan):
    found = engine_settings(deployed(asked(plan, policy=TABLE), max_num_seqs=32))["vllm"]
    assert found.refusal is None
    config = vllm_config(found)
    assert config["num_speculative_tokens"] == 4
    rows = [[1, 8, 4], [9, 16, 2], [17, 32, 0]]
    assert config["num_speculative_tokens_per_batch_size"] == rows
    # 16 requests with 2 drafts are the largest decode batch in tokens.
    assert '{"max_cudagraph_capture_size":48}' in found.argv


def test_vllm_before_its_table_is_refused_and_gets_the_plans_length(plan, tmp_path):
    found = engine_settings(asked(plan, policy=TABLE), {"vllm": "0.23"})["vllm"]
    assert "from 0.24 on" in found.refusal
    assert vllm_config(found) == {
        "method": "eagle",
        "model": "org/D",
        "num_speculative_tokens": 3,
    }
    code, stderr, argv = run_script(shell_script(found), tmp_path)
    assert (code, argv) == (1, None)
    assert "refused: vLLM takes" in stderr


def test_tiers_become_the_longest_candidate_of_each_in_vllm(plan):
    found = engine_settings(asked(plan, policy=TIERS))["vllm"]
    assert "does not change its draft length with acceptance" in found.refusal
    assert vllm_config(found)["num_speculative_tokens_per_batch_size"] == [[1, 7, 3], [8, 64, 1]]


@pytest.mark.parametrize("tree", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ["vllm", "llama_cpp"])
def test_trees_are_refused_where_no_version_has_them(plan, name, tree):
    found = engine_settings(asked(plan, **tree))[name]
    assert "trees" in found.refusal
    assert "speculative_token_tree" not in found.command
    assert "3" in found.argv or vllm_config(found)["num_speculative_tokens"] == 3


def test_a_draft_on_as_many_gpus_as_it_may_have(plan):
    several = asked(plan, "draft_model", {"tensor_parallel": 2})
    found = engine_settings(several)["vllm"]
    assert "not on 2" in found.refusal
    assert vllm_config(found)["draft_tensor_parallel_size"] == 1
    raw = json.loads(several.model_dump_json())
    raw["profile"]["identity"]["tensor_parallel"] = 2
    found = engine_settings(Plan.model_validate_json(json.dumps(raw)))["vllm"]
    assert found.refusal is None
    assert vllm_config(found)["draft_tensor_parallel_size"] == 2


def test_a_policy_that_vllm_lacks_points_to_the_alert(plan):
    assert "acceptance alert" in engine_settings(asked(plan, policy=GATE))["vllm"].refusal


def test_a_table_becomes_single_candidates_in_sglangs_adaptive_file(plan):
    found = engine_settings(asked(plan, policy=TABLE))["sglang"]
    assert found.refusal is None
    (file,) = found.files
    assert file.name in found.argv
    assert json.loads(file.content) == {
        "1": {"candidate_steps": [4]},
        "9": {"candidate_steps": [2]},
        "17": {"candidate_steps": [0]},
    }
    assert found.argv[found.argv.index("--speculative-num-draft-tokens") + 1] == "5"


def test_tiers_keep_their_fields_in_sglang(plan):
    (file,) = engine_settings(asked(plan, policy=TIERS))["sglang"].files
    edges = {"up_hysteresis": 0.0, "down_hysteresis": -0.25}
    assert json.loads(file.content) == {
        "ema_alpha": 0.2,
        "update_interval": 5,
        "warmup_batches": 10,
        "1": {"candidate_steps": [1, 3]} | edges,
        "8": {"candidate_steps": [0, 1]} | edges,
    }


@pytest.mark.parametrize("kind", ["ngram", "draft_model"])
def test_sglang_adapts_eagle_only(plan, kind):
    found = engine_settings(asked(plan, kind, policy=TABLE))["sglang"]
    assert "adapts EAGLE only" in found.refusal
    assert "--speculative-adaptive" not in found.argv
    assert found.files == ()


def test_a_dynamic_tree_counts_the_root_in_sglang(plan):
    found = engine_settings(asked(plan, **DYNAMIC))["sglang"]
    assert found.refusal is None
    at = found.argv.index("--speculative-num-steps")
    assert found.argv[at : at + 6] == (
        *("--speculative-num-steps", "5", "--speculative-eagle-topk", "4"),
        *("--speculative-num-draft-tokens", "8"),
    )


def test_a_static_tree_that_sglangs_numbers_fix_is_not_refused(plan):
    whole = {"tree": [-1, -1, 0, 0, 1, 1], "num_speculative_tokens": 2}
    assert engine_settings(asked(plan, **whole))["sglang"].refusal is None
    assert "confidence" in engine_settings(asked(plan, **STATIC))["sglang"].refusal


def test_a_schedule_has_upper_bounds_in_new_tensorrt_llm_and_lower_ones_in_old(plan):
    wanted = asked(plan, policy=TABLE)
    new = engine_settings(wanted)["tensorrt_llm"]
    assert trtllm(new)["speculative_config"] == {
        "decoding_type": "Eagle3",
        "max_draft_len": 4,
        "speculative_model": "org/D",
        "draft_len_schedule": {8: 4, 16: 2, 64: 0},
    }
    old = engine_settings(wanted, {"tensorrt_llm": "1.2.1"})["tensorrt_llm"]
    assert trtllm(old)["speculative_config"]["draft_len_schedule"] == {1: 4, 9: 2, 17: 0}
    between = engine_settings(wanted, {"tensorrt_llm": "1.3.0rc5"})["tensorrt_llm"]
    assert "release candidates" in between.refusal
    assert trtllm(between)["speculative_config"]["max_draft_len"] == 3


def test_a_rising_table_is_cut_to_its_first_row_in_tensorrt_llm(plan):
    found = engine_settings(asked(plan, policy=RISING))["tensorrt_llm"]
    assert "cannot grow" in found.refusal
    config = trtllm(found)["speculative_config"]
    assert config["draft_len_schedule"] == {4: 2, 64: 2}
    assert config["max_draft_len"] == 2


def test_the_gate_is_tensorrt_llms_own(plan):
    found = engine_settings(asked(plan, policy=GATE))["tensorrt_llm"]
    assert found.refusal is None
    config = trtllm(found)["speculative_config"]
    assert config["acceptance_rate_threshold"] == 0.4
    assert config["acceptance_rate_window_size"] == 200
    old = engine_settings(asked(plan, policy=GATE), {"tensorrt_llm": "1.2"})["tensorrt_llm"]
    assert "completed requests" in old.refusal


def test_a_dynamic_tree_and_pard_become_tensorrt_llms_keys(plan):
    tree = trtllm(engine_settings(asked(plan, **DYNAMIC))["tensorrt_llm"])["speculative_config"]
    assert (tree["max_draft_len"], tree["max_total_draft_tokens"]) == (5, 7)
    assert (tree["use_dynamic_tree"], tree["dynamic_tree_max_topK"]) == (True, 4)
    parallel = deployed(
        asked(plan, "draft_model", {"parallel_drafting": 1}),
        max_num_batched_tokens=64,
        max_num_seqs=64,
    )
    config = trtllm(engine_settings(parallel)["tensorrt_llm"])
    assert config["speculative_config"]["decoding_type"] == "PARD"
    assert config["max_num_tokens"] == 64 * 2 * 3


def test_the_limits_of_the_deployment_reach_tensorrt_llm(plan):
    small = deployed(asked(plan, "ngram"), kv_cache_tokens=4096, prefix_caching=False)
    config = trtllm(engine_settings(small)["tensorrt_llm"])
    assert config["kv_cache_config"]["max_tokens"] == 4096
    assert config["kv_cache_config"]["enable_block_reuse"] is False
    assert config["max_batch_size"] == 64


def test_tensorrt_llm_is_refused_on_a_cpu(plan):
    assert "NVIDIA" in engine_settings(on_cpu(asked(plan)))["tensorrt_llm"].refusal


def test_llama_cpp_gets_slots_and_their_context(plan):
    small = deployed(asked(plan, "draft_model"), kv_cache_tokens=4096, max_num_seqs=4)
    found = engine_settings(small)["llama_cpp"]
    assert found.refusal is None
    assert list(found.argv) == [
        *("llama-server", "--model", "TARGET_MODEL.gguf", "--parallel", "4"),
        *("--ctx-size", "4096", "--batch-size", "8192", "--n-gpu-layers", "999"),
        *("--spec-type", "draft-simple", "--spec-draft-model", "DRAFT_MODEL.gguf"),
        *("--spec-draft-ngl", "999", "--spec-draft-n-max", "3", "--spec-draft-n-min", "0"),
        *("--spec-draft-p-min", "0", "--metrics"),
    ]
    # Prompts of up to 2048 and outputs of up to 1024 tokens do not fit a quarter of 4096.
    assert any("1,024 tokens of the 4,096" in n and "refused or cut" in n for n in found.notes)


def test_llama_cpps_context_holds_the_longest_request_of_every_slot(plan):
    found = engine_settings(asked(plan, "ngram", {"max_n": 3}))["llama_cpp"]
    size = int(found.argv[found.argv.index("--ctx-size") + 1])
    assert size == 64 * (2048 + 1024 + 3)
    at = found.argv.index("--spec-type")
    assert found.argv[at : at + 6] == (
        *("--spec-type", "ngram-simple", "--spec-ngram-simple-size-m", "3"),
        *("--spec-ngram-simple-size-n", "3"),
    )
    assert not any(argument.startswith("--draft") for argument in found.argv)


def test_sampled_drafts_are_matched_by_sample_in_llama_cpp(plan):
    found = engine_settings(asked(plan, "draft_model", sampled=True))["llama_cpp"]
    assert "without rejection sampling" in found.refusal


def test_scheduling_and_prefix_caching_reach_every_engine_that_has_them(plan):
    found = engine_settings(
        deployed(asked(plan, "ngram"), scheduling="priority", prefix_caching=False)
    )
    assert "--scheduling-policy priority --" in found["vllm"].command
    assert "--no-enable-prefix-caching" in found["vllm"].argv
    assert "--schedule-low-priority-values-first" in found["sglang"].argv
    assert "--disable-radix-cache" in found["sglang"].argv
    assert "no priority scheduling" in found["tensorrt_llm"].refusal
    assert "no priorities" in found["llama_cpp"].refusal
    assert "--no-cache-prompt" in found["llama_cpp"].argv


def test_a_block_size_is_given_where_the_plan_followed_that_engine(plan):
    found = engine_settings(deployed(asked(plan), preset="vllm", block_size=32))
    assert "--block-size 32" in found["vllm"].command
    assert "--page-size" not in found["sglang"].command


def test_a_head_named_by_the_profile_is_named_to_the_engines(plan):
    found = engine_settings(asked(plan, settings={"method": "eagle3"}))
    assert vllm_config(found["vllm"])["method"] == "eagle3"
    assert "EAGLE3" in found["sglang"].argv
    assert not any("which EAGLE" in note for each in found.values() for note in each.notes)


def test_a_scenario_of_its_own_way_says_that_the_plan_left_it_out(plan):
    notes = engine_settings(asked(plan, policy=TABLE))["vllm"].notes
    assert any("simulate the scenario" in note for note in notes)
    plain = engine_settings(asked(plan))["vllm"]
    assert vllm_config(plain)["num_speculative_tokens"] == 3
    assert not any("simulate the scenario" in note for note in plain.notes)


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ({"vllm": "0.6.3"}, "written for 0.21 and later"),
        ({"llama_cpp": "b8000"}, "written for b9235"),
        ({"vllm": "newest"}, "expected one such as"),
        ({"tgi": "3"}, "expected one of vllm"),
    ],
)
def test_versions_that_nobody_wrote_for_are_refused_in_one_sentence(plan, versions, message):
    with pytest.raises(SpecplanError, match=message):
        engine_settings(plan, versions)


@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.system [ls]", "a: b\n- c", "'\"", "{{ .X }}", "<b>"]
)
def test_hostile_names_stay_out_of_the_files(plan, text):
    hostile = given(
        asked(plan, policy=TABLE),
        {"it": proposer("draft_model", text)["it"]},
    )
    raw = json.loads(hostile.model_dump_json())
    raw["profile"]["identity"]["target"]["name"] = text
    for each in engine_settings(Plan.model_validate_json(json.dumps(raw))).values():
        for file in each.files:
            assert text not in file.content
            loaded = yaml.safe_load(file.content)
            assert isinstance(loaded, dict)


def test_versions_compare_as_numbers():
    assert parse_version("llama.cpp", "b10400", "b9235") == Version("10400")
