"""Engine settings: exact arguments for every kind of proposer, and nothing a shell could run."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from simcore.planner.document import Plan
from simcore.profile.schema import Proposer
from simcore.report.engine import EngineSettings
from simcore.report.flags import engine_settings, shell_script
from tests.report.hostile import TEXTS

REMOVED = ("disable_by_batch_size", "speculative_token_tree", "--speculative-model")
VLLM_LIMITS = ["--max-num-seqs", "64", "--max-num-batched-tokens", "8192"]
SGLANG_LIMITS = ["--max-running-requests", "64", "--cuda-graph-max-bs", "64"]


def decided(plan: Plan, gamma: int, **identity) -> Plan:
    """The plan as if proposer 'it' with γ had won; γ = 0 is off."""
    raw = json.loads(plan.model_dump_json())
    raw["decision"] |= {
        "choice": "speculate" if gamma else "off",
        "proposer": "it" if gamma else None,
        "num_speculative_tokens": gamma,
    }
    if identity.pop("sampled", False):
        raw["scenario"] |= {"contract": "exact_sampling", "sampling": {"temperature": 1.0}}
    raw["profile"]["identity"]["target"] |= identity
    return Plan.model_validate_json(json.dumps(raw))


def given(plan: Plan, proposers: dict[str, Proposer]) -> Plan:
    """The plan as if its profile had these proposers."""
    return plan.model_copy(
        update={"profile": plan.profile.model_copy(update={"proposers": proposers})}
    )


def proposer(kind: str, name: str | None = None, **settings) -> dict[str, Proposer]:
    model = name and {
        "name": name,
        "revision": "r",
        "num_parameters": 1,
        "dtype": "bfloat16",
        "quantization": "none",
        "tokenizer": "t",
        "vocab_size": 2,
        "weight_bytes": 1,
        "kv_bytes_per_token": 1,
    }
    raw = {"kind": kind, "settings": settings, "model": model}
    return {"it": Proposer.model_validate(raw)}


def vllm_argv(captured: int, config: dict[str, object] | None, model="TARGET_MODEL") -> list[str]:
    graph = json.dumps({"max_cudagraph_capture_size": captured}, separators=(",", ":"))
    argv = ["vllm", "serve", model, *VLLM_LIMITS, "--gpu-memory-utilization", "0.9"]
    argv += ["--compilation-config", graph]
    if config is not None:
        argv += ["--speculative-config", json.dumps(config, separators=(",", ":"))]
    return argv


def sglang_argv(flags: list[str], model="TARGET_MODEL") -> list[str]:
    head = ["python", "-m", "sglang.launch_server", "--model-path", model]
    return [*head, *flags, *SGLANG_LIMITS, "--mem-fraction-static", "0.9", "--enable-metrics"]


def test_ngram_becomes_prompt_lookup_of_the_measured_sizes(plan):
    found = engine_settings(given(decided(plan, 3), proposer("ngram", max_n=3, min_n=1)))
    config = {
        "method": "ngram",
        "prompt_lookup_max": 3,
        "prompt_lookup_min": 1,
        "num_speculative_tokens": 3,
    }
    assert shlex.split(found["vllm"].command) == vllm_argv(256, config)
    flags = ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "4"]
    flags += ["--speculative-ngram-min-bfs-breadth", "1"]
    flags += ["--speculative-ngram-max-bfs-breadth", "1"]
    assert shlex.split(found["sglang"].command) == sglang_argv(flags)


def test_a_draft_model_is_named_and_becomes_standalone_in_sglang(plan):
    chosen = decided(plan, 4, name="org/Target-8B")
    found = engine_settings(given(chosen, proposer("draft_model", "org/Draft-1B")))
    config = {"method": "draft_model", "model": "org/Draft-1B", "num_speculative_tokens": 4}
    assert shlex.split(found["vllm"].command) == vllm_argv(320, config, "org/Target-8B")
    flags = ["--speculative-algorithm", "STANDALONE"]
    flags += ["--speculative-draft-model-path", "org/Draft-1B", "--speculative-num-steps", "4"]
    flags += ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "5"]
    assert shlex.split(found["sglang"].command) == sglang_argv(flags, "org/Target-8B")
    assert not any("Replace" in note for each in found.values() for note in each.notes)


def test_eagle_without_a_hub_name_gets_a_placeholder_that_the_notes_name(plan):
    found = engine_settings(given(decided(plan, 5), proposer("eagle")))
    config = {"method": "eagle", "model": "DRAFT_MODEL", "num_speculative_tokens": 5}
    assert shlex.split(found["vllm"].command) == vllm_argv(384, config)
    flags = ["--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "DRAFT_MODEL"]
    flags += ["--speculative-num-steps", "5", "--speculative-eagle-topk", "1"]
    flags += ["--speculative-num-draft-tokens", "6"]
    assert shlex.split(found["sglang"].command) == sglang_argv(flags)
    for each in found.values():
        for placeholder in ("TARGET_MODEL", "DRAFT_MODEL"):
            assert any(f"Replace {placeholder}" in note for note in each.notes)


@pytest.mark.parametrize("kind", ["draft_model", "eagle"])
def test_sampled_drafts_are_asked_for_under_exact_sampling(plan, kind):
    found = engine_settings(given(decided(plan, 2, sampled=True), proposer(kind)))
    assert '"draft_sample_method":"probabilistic"' in found["vllm"].command
    if kind == "eagle":
        assert "--speculative-use-rejection-sampling" in found["sglang"].argv
    else:
        assert "EAGLE only" in (found["sglang"].refusal or "")


def test_ngram_needs_no_draft_sampling_under_exact_sampling(plan):
    found = engine_settings(given(decided(plan, 2, sampled=True), proposer("ngram")))
    assert "draft_sample_method" not in found["vllm"].command
    assert found["sglang"].refusal is None


def test_off_gives_the_plain_command(plan):
    found = engine_settings(given(decided(plan, 0), {}))
    assert list(found["vllm"].argv) == vllm_argv(64, None)
    assert list(found["sglang"].argv) == sglang_argv([])
    assert all("speculative" not in each.command for each in found.values())


def test_no_removed_flag_is_emitted(plan):
    for kind in ("ngram", "draft_model", "eagle"):
        for each in engine_settings(given(decided(plan, 3), proposer(kind))).values():
            assert not any(flag in each.command for flag in REMOVED)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_hostile_argument_reaches_the_engine_as_it_stands(tmp_path, text):
    settings = EngineSettings("vLLM", text, ("vllm", "serve", text), (text,), None)
    assert shlex.split(settings.command) == ["vllm", "serve", text]
    code, _, argv = run_script(shell_script(settings), tmp_path)
    assert (code, argv) == (0, ["serve", text])


def test_a_hostile_model_name_becomes_a_placeholder(hostile_plan, hostile_text, tmp_path):
    hostile = proposer("draft_model", hostile_text)["it"]
    found = engine_settings(given(hostile_plan, {hostile_plan.decision.proposer: hostile}))
    for each in found.values():
        written = each.command + "".join(file.content for file in each.files)
        assert hostile_text not in written
        assert "TARGET_MODEL" in written
        assert "DRAFT_MODEL" in written
    code, _, argv = run_script(shell_script(found["vllm"]), tmp_path)
    assert (code, argv) == (0, list(found["vllm"].argv[1:]))


def run_script(script: str, folder: Path) -> tuple[int, str, list[str] | None]:
    """Exit code, stderr and the arguments that stand-ins for the engines received."""
    folder.mkdir(exist_ok=True)
    for name in ("vllm", "python"):
        path = folder / name
        path.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > '{folder}/argv'\n")
        path.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)},
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    arrived = folder / "argv"
    argv = arrived.read_text().split("\0")[:-1] if arrived.exists() else None
    return done.returncode, done.stderr, argv


def test_a_cpu_profile_gets_no_gpu_flag_and_a_warning(plan):
    raw = json.loads(decided(plan, 2).model_dump_json())
    raw["profile"]["identity"]["hardware"]["device"] = "cpu"
    found = engine_settings(given(Plan.model_validate_json(json.dumps(raw)), proposer("ngram")))
    for each in found.values():
        assert not any("cuda" in argument or "gpu" in argument for argument in each.argv)
        assert any("measured on a CPU" in note for note in each.notes)


def test_the_deployment_and_its_break_even_are_told(plan):
    raw = json.loads(decided(plan, 2).model_dump_json())
    raw["profile"]["identity"]["tensor_parallel"] = 2
    raw["scenario"]["deployment"] |= {"replicas": 3, "kv_cache_tokens": 4096, "max_num_seqs": 1}
    raw["break_even"]["rate_per_s"] = 12.5
    found = engine_settings(given(Plan.model_validate_json(json.dumps(raw)), proposer("ngram")))
    assert "--tensor-parallel-size 2" in found["vllm"].command
    assert '{"max_cudagraph_capture_size":4}' in found["vllm"].argv
    assert "--tp-size 2" in found["sglang"].command
    for each in found.values():
        notes = " ".join(each.notes)
        assert "One replica of 3" in notes
        assert "4,096 tokens of KV" in notes
        assert "up to 12.5 requests/s" in notes


def test_suffix_decoding_is_vllms_own_method_and_refused_elsewhere(plan):
    found = engine_settings(
        given(decided(plan, 5), proposer("suffix", factor=2.0, min_token_prob=0.1))
    )
    argv = list(found["vllm"].argv)
    assert json.loads(argv[argv.index("--speculative-config") + 1]) == {
        "method": "suffix",
        "num_speculative_tokens": 5,
        "suffix_decoding_max_spec_factor": 2.0,
        "suffix_decoding_min_token_prob": 0.1,
    }
    assert found["vllm"].refusal is None
    assert "no suffix proposer" in found["sglang"].refusal


@pytest.mark.parametrize("kind", ["lookahead", "layer_skip"])
def test_a_proposer_that_no_engine_has_is_refused_and_nothing_is_started(plan, kind):
    for settings in engine_settings(given(decided(plan, 4), proposer(kind))).values():
        assert f"no {kind} proposer" in settings.refusal
        assert not any("speculative" in word for word in settings.argv)
        assert "exit 1" in shell_script(settings)
