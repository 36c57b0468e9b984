"""A plan as vLLM's command line: `vllm serve`, with what LAST reads and FIRST read already.

Never written: speculative_disable_by_batch_size and speculative_token_tree (both removed), and the
flat --speculative-model family of V0.
"""

from dataclasses import replace

from packaging.version import Version

from simcore.profile.schema import Proposer
from simcore.report.abilities import (
    Ability,
    Limit,
    chain,
    ema_as_table,
    fit,
    fixed,
    serial_drafts,
)
from simcore.report.engine import (
    Arguments,
    Choice,
    EngineSettings,
    common_notes,
    draft_notes,
    eagle_method,
    json_text,
    kv_note,
    model_argument,
    ngram_sizes,
    table_rows,
)
from simcore.speculation import BatchSizeTable

FIRST, LAST = "0.21", "0.28"  # 0.28 is main of 2026-08-17
SMALL_CAPTURES = (1, 2, 4)
FINE_CAPTURES_BELOW, FINE_STEP, COARSE_STEP = 256, 8, 16  # captured batch sizes, tokens
LOOKUP_KEYS = {"max_n": "prompt_lookup_max", "min_n": "prompt_lookup_min"}

FIXED_WORDS = "the fixed draft length that the plan chose"
TREES_WENT = "vLLM drafts no trees since 0.21"
LIMITS = (
    Limit(Ability.POLICY_WITH_TREE, TREES_WENT, chain, FIXED_WORDS),
    Limit(Ability.STATIC_TREE, TREES_WENT, chain, FIXED_WORDS),
    Limit(Ability.DYNAMIC_TREE, TREES_WENT, chain, FIXED_WORDS),
    Limit(
        Ability.ADAPTIVE_EMA,
        "vLLM does not change its draft length with acceptance",
        ema_as_table,
        "the longest candidate of every batch size, or the draft length that the plan chose",
    ),
    Limit(
        Ability.ACCEPTANCE_GATE,
        "vLLM has no gate that closes when acceptance falls",
        fixed,
        "a fixed draft length with the acceptance alert of this plan",
    ),
    Limit(Ability.GOODPUT, "vLLM never merged a goodput policy", fixed, FIXED_WORDS),
    Limit(
        Ability.MEMORY_PRESSURE,
        "vLLM preempts when blocks run out and never shortens drafts for it",
        fixed,
        FIXED_WORDS,
    ),
    Limit(
        Ability.ADAPTIVE_VERIFICATION,
        "vLLM verifies adaptively with dspark heads only",
        fixed,
        FIXED_WORDS,
    ),
    Limit(Ability.ORACLE, "no engine knows what will be accepted", fixed, FIXED_WORDS),
    Limit(
        Ability.BATCH_SIZE_TABLE,
        "vLLM takes num_speculative_tokens_per_batch_size from 0.24 on",
        fixed,
        FIXED_WORDS,
        missing_in="<0.24",
    ),
    Limit(
        Ability.PARALLEL_DRAFTING,
        "an n-gram lookup has no passes to run in parallel",
        serial_drafts,
        "the lookup as it is",
        kinds=("ngram",),
    ),
)


def vllm_settings(choice: Choice, version: Version) -> EngineSettings:
    """`vllm serve` with the plan's limits, and --speculative-config where it speculates."""
    choice, refusal = fit(choice, LIMITS, version)
    refusal, choice = _draft_parallelism(refusal, choice)
    identity = choice.plan.profile.identity
    argv: Arguments = ["vllm", "serve", model_argument(identity.target, "TARGET_MODEL")]
    if choice.tensor_parallel > 1:
        argv += ["--tensor-parallel-size", str(choice.tensor_parallel)]
    argv += _scheduler_flags(choice)
    if choice.device == "cuda":
        utilization = choice.plan.scenario.deployment.memory_utilization
        argv += ["--gpu-memory-utilization", f"{utilization:g}"]
        captured = {"max_cudagraph_capture_size": _captured(choice)}
        argv += ["--compilation-config", json_text(captured)]
    if choice.proposer is not None:
        config = _speculative_config(choice, choice.proposer)
        argv += ["--speculative-config", json_text(config)]
    notes = (*common_notes(choice), *kv_note(choice), *draft_notes(choice), *_own_notes(choice))
    return EngineSettings("vLLM", str(version), tuple(argv), notes, refusal)


def pinned_acceptance(config: str, survival: tuple[float, ...]) -> str:
    """The same speculative config with acceptance forced to `survival`, for load tests.

    Rates are unconditional, one a position, and never rise.
    """
    rates = [round(min(survival[: k + 1]), 4) for k in range(len(survival))]
    forced = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}
    return config[:-1] + "," + json_text(forced)[1:]


def _scheduler_flags(choice: Choice) -> Arguments:
    deployment = choice.plan.scenario.deployment
    argv = ["--max-num-seqs", str(deployment.max_num_seqs)]
    argv += ["--max-num-batched-tokens", str(deployment.max_num_batched_tokens)]
    if (block_size := choice.own_setting("vllm", "block_size")) is not None:
        argv += ["--block-size", str(block_size)]
    if not deployment.prefix_caching:
        argv += ["--no-enable-prefix-caching"]
    if choice.by_priority:
        argv += ["--scheduling-policy", "priority"]
    return argv


def _speculative_config(choice: Choice, proposer: Proposer) -> dict[str, object]:
    if proposer.kind == "ngram":
        sizes = ngram_sizes(proposer)
        lookup = {LOOKUP_KEYS[name]: size for name, size in sizes.items()}
        config: dict[str, object] = {"method": "ngram", **lookup}
    else:
        method = eagle_method(proposer) if proposer.kind == "eagle" else proposer.kind
        config = {"method": method, "model": model_argument(proposer.model, "DRAFT_MODEL")}
    config["num_speculative_tokens"] = choice.gamma
    if isinstance(choice.policy, BatchSizeTable):
        largest = choice.plan.scenario.deployment.max_num_seqs
        rows = table_rows(choice.policy, choice.gamma, largest)
        config["num_speculative_tokens_per_batch_size"] = [list(row) for row in rows]
    if choice.samples_drafts:
        config["draft_sample_method"] = "probabilistic"
    if choice.parallel_drafting:
        config["parallel_drafting"] = True
    if (size := _draft_size(proposer)) is not None:
        config["draft_tensor_parallel_size"] = size
    return config


def _draft_size(proposer: Proposer) -> int | None:
    size = proposer.settings.get("tensor_parallel")
    return size if isinstance(size, int) and proposer.kind != "ngram" else None


def _draft_parallelism(refusal: str | None, choice: Choice) -> tuple[str | None, Choice]:
    """A draft runs on one GPU or on as many as the target."""
    size = _draft_size(choice.proposer) if choice.proposer else None
    if choice.proposer is None or size in (None, 1, choice.tensor_parallel):
        return refusal, choice
    settings = {**choice.proposer.settings, "tensor_parallel": 1}
    reason = (
        f"vLLM runs a draft on 1 GPU or on all {choice.tensor_parallel} of the target, not on "
        f"{size}; the nearest is 1"
    )
    proposer = choice.proposer.model_copy(update={"settings": settings})
    reasons = [each for each in (refusal, reason) if each]
    return ". ".join(reasons), replace(choice, proposer=proposer)


def _captured(choice: Choice) -> int:
    """The smallest capturable size that holds a full decode batch: seqs · (1 + K) tokens.

    With a table, that of the batch size whose decode batch has the most tokens.
    """
    largest = choice.plan.scenario.deployment.max_num_seqs
    tokens = largest * (1 + choice.gamma)
    if isinstance(choice.policy, BatchSizeTable):
        rows = table_rows(choice.policy, choice.gamma, largest)
        tokens = max(row.last * (1 + row.num_speculative_tokens) for row in rows)
    for size in SMALL_CAPTURES:
        if tokens <= size:
            return size
    step = FINE_STEP if tokens < FINE_CAPTURES_BELOW else COARSE_STEP
    return -(-tokens // step) * step


def _own_notes(choice: Choice) -> list[str]:
    notes = []
    if choice.gamma > 0 and choice.device == "cuda":
        notes.append(
            "max_cudagraph_capture_size holds max_num_seqs x (1 + K) tokens: beyond it a step "
            "runs eagerly and its time jumps."
        )
    if isinstance(choice.policy, BatchSizeTable):
        notes.append(
            "The batch size of the table counts the requests of the step before, prefills "
            "included. Where it says 0 the drafter still runs one pass a step."
        )
    if choice.samples_drafts:
        notes.append(
            "draft_sample_method is set because vLLM drafts greedily by default, which changes "
            "acceptance at temperatures above 0."
        )
    if choice.proposer is not None and choice.proposer.kind == "ngram":
        if "max_n" not in ngram_sizes(choice.proposer):
            notes.append("The profile states no n-gram sizes: the default of vLLM is 5 for both.")
        notes.append("Asynchronous scheduling is off with the ngram method.")
    return notes
