"""A plan as vLLM's command line; keys and traps as of VERSION."""

import json

from simcore.profile.schema import Proposer
from simcore.report.engine import (
    Arguments,
    Choice,
    EngineSettings,
    common_notes,
    draft_notes,
    model_argument,
)

VERSION = "main of 2026-08-17"
SMALL_CAPTURES = (1, 2, 4)
FINE_CAPTURES_BELOW, FINE_STEP, COARSE_STEP = 256, 8, 16  # captured batch sizes, tokens


def vllm_settings(choice: Choice) -> EngineSettings:
    """`vllm serve` with the plan's limits, and --speculative-config where it speculates."""
    deployment, identity = choice.plan.scenario.deployment, choice.plan.profile.identity
    argv: Arguments = ["vllm", "serve", model_argument(identity.target, "TARGET_MODEL")]
    if choice.tensor_parallel > 1:
        argv += ["--tensor-parallel-size", str(choice.tensor_parallel)]
    argv += ["--max-num-seqs", str(deployment.max_num_seqs)]
    argv += ["--max-num-batched-tokens", str(deployment.max_num_batched_tokens)]
    if identity.hardware.device == "cuda":
        argv += ["--gpu-memory-utilization", f"{deployment.memory_utilization:g}"]
        argv += ["--compilation-config", _json({"max_cudagraph_capture_size": _captured(choice)})]
    if choice.proposer is not None:
        argv += ["--speculative-config", _json(_speculative_config(choice, choice.proposer))]
    notes = (*common_notes(choice), *draft_notes(choice), *_own_notes(choice))
    return EngineSettings("vLLM", VERSION, tuple(argv), notes)


def _speculative_config(choice: Choice, proposer: Proposer) -> dict[str, object]:
    config: dict[str, object] = {"method": proposer.kind}
    if proposer.kind == "ngram":
        config |= _lookup_sizes(proposer)
    else:
        config["model"] = model_argument(proposer.model, "DRAFT_MODEL")
    config["num_speculative_tokens"] = choice.gamma
    if choice.samples_drafts:
        config["draft_sample_method"] = "probabilistic"
    return config


def _lookup_sizes(proposer: Proposer) -> dict[str, int]:
    """Longest and shortest n-gram looked up, where the profile states them."""
    names = {"prompt_lookup_max": "max_n", "prompt_lookup_min": "min_n"}
    found = {key: proposer.settings.get(name) for key, name in names.items()}
    return {key: size for key, size in found.items() if isinstance(size, int) and size > 0}


def _captured(choice: Choice) -> int:
    """The smallest capturable size that holds a full decode batch: seqs · (1 + K) tokens."""
    tokens = choice.plan.scenario.deployment.max_num_seqs * (1 + choice.gamma)
    for size in SMALL_CAPTURES:
        if tokens <= size:
            return size
    step = FINE_STEP if tokens < FINE_CAPTURES_BELOW else COARSE_STEP
    return -(-tokens // step) * step


def _own_notes(choice: Choice) -> list[str]:
    notes = []
    if choice.gamma > 0 and choice.plan.profile.identity.hardware.device == "cuda":
        notes.append(
            "max_cudagraph_capture_size holds max_num_seqs x (1 + K) tokens: beyond it a step "
            "runs eagerly and its time jumps."
        )
    if choice.samples_drafts:
        notes.append(
            "draft_sample_method is set because vLLM drafts greedily by default, which changes "
            "acceptance at temperatures above 0."
        )
    if choice.proposer is not None and choice.proposer.kind == "ngram":
        if "prompt_lookup_max" not in _lookup_sizes(choice.proposer):
            notes.append("The profile states no n-gram sizes: the default of vLLM is 5 for both.")
        notes.append("Asynchronous scheduling is off with the ngram method.")
    return notes


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))
