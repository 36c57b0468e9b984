"""A plan as a file for `trtllm-serve --config`; keys and traps of TensorRT-LLM as of LAST."""

from dataclasses import replace

from packaging.version import Version

from simcore.acceptance.topology.sglang_shape import sglang_shape
from simcore.acceptance.tree import DraftTree
from simcore.profile.schema import Proposer
from simcore.report.abilities import (
    Ability,
    Limit,
    chain,
    ema_as_table,
    falling_table,
    fit,
    fixed,
    in_order,
    serial_drafts,
)
from simcore.report.engine import (
    Arguments,
    Choice,
    EngineSettings,
    SettingsFile,
    TableRow,
    common_notes,
    draft_notes,
    eagle_method,
    model_argument,
    ngram_sizes,
    table_rows,
    yaml_text,
)
from simcore.speculation import AcceptanceGate, BatchSizeTable, DynamicTree

FIRST, LAST = "1.2", "1.4.0rc0"
UPPER_BOUNDS_SINCE = Version("1.3.0rc13")  # of draft_len_schedule; lower bounds in 1.2
CONFIG_FILE = "tensorrt_llm.yaml"
DECODING_TYPES = {"ngram": "NGram", "draft_model": "Draft_Target"}
EAGLE_TYPES = {"eagle": "Eagle3", "eagle3": "Eagle3", "mtp": "MTP"}
FIXED_WORDS = "the fixed draft length that the plan chose"


def _on_gpu(choice: Choice) -> Choice:
    return replace(choice, device="cuda")


def _dynamic(choice: Choice) -> Choice:
    """The smallest dynamic tree that can choose the static one."""
    assert choice.tree is not None
    shape = sglang_shape(DraftTree(choice.tree))
    tree = DynamicTree(topk=shape.eagle_topk, num_draft_tokens=shape.num_draft_tokens - 1)
    return replace(choice, tree=None, dynamic_tree=tree)


LIMITS = (
    Limit(Ability.CPU, "TensorRT-LLM runs on NVIDIA GPUs only", _on_gpu, "a GPU"),
    Limit(
        Ability.POLICY_WITH_TREE,
        "TensorRT-LLM changes the length of chains, not of trees",
        fixed,
        "the tree always",
    ),
    Limit(
        Ability.STATIC_TREE,
        "TensorRT-LLM drafts trees with EAGLE only",
        chain,
        FIXED_WORDS,
        kinds=("ngram", "draft_model"),
    ),
    Limit(
        Ability.STATIC_TREE,
        "eagle_choices, the static trees of TensorRT-LLM, are deprecated",
        _dynamic,
        "the smallest dynamic tree that can take this shape, whose acceptance the plan did not "
        "measure",
    ),
    Limit(
        Ability.DYNAMIC_TREE,
        "TensorRT-LLM drafts trees with EAGLE only",
        chain,
        FIXED_WORDS,
        kinds=("ngram", "draft_model"),
    ),
    Limit(
        Ability.ADAPTIVE_EMA,
        "TensorRT-LLM does not move its draft length with acceptance",
        ema_as_table,
        "the longest candidate of every batch size, or the draft length that the plan chose",
    ),
    Limit(
        Ability.BATCH_SIZE_TABLE,
        "draft_len_schedule changed from lower to upper bounds among these release candidates",
        fixed,
        FIXED_WORDS,
        missing_in=">=1.3.0rc0,<1.3.0rc13",
    ),
    Limit(
        Ability.RISING_TABLE,
        "draft_len_schedule begins with max_draft_len and cannot grow with the batch",
        falling_table,
        "the same table, no longer than its first row",
    ),
    Limit(
        Ability.ACCEPTANCE_GATE,
        "before 1.3.0rc13 TensorRT-LLM gates on completed requests, not on accepted / drafted",
        fixed,
        "a fixed draft length with the acceptance alert of this plan",
        missing_in="<1.3.0rc13",
    ),
    Limit(Ability.GOODPUT, "TensorRT-LLM has no goodput policy", fixed, FIXED_WORDS),
    Limit(
        Ability.MEMORY_PRESSURE,
        "TensorRT-LLM pauses or does not admit requests when blocks run out",
        fixed,
        FIXED_WORDS,
    ),
    Limit(
        Ability.ADAPTIVE_VERIFICATION,
        "TensorRT-LLM verifies every draft",
        fixed,
        FIXED_WORDS,
    ),
    Limit(Ability.ORACLE, "no engine knows what will be accepted", fixed, FIXED_WORDS),
    Limit(
        Ability.PARALLEL_DRAFTING,
        "TensorRT-LLM drafts in parallel with PARD draft models only",
        serial_drafts,
        "one pass a token, which takes longer than the plan says",
        kinds=("ngram", "eagle"),
    ),
    Limit(
        Ability.PRIORITY,
        "trtllm-serve has no priority scheduling",
        in_order,
        "first come, first served",
    ),
)


def tensorrt_llm_settings(choice: Choice, version: Version) -> EngineSettings:
    """`trtllm-serve` with a configuration file of the plan's limits and speculation."""
    choice, refusal = fit(choice, LIMITS, version)
    target = model_argument(choice.plan.profile.identity.target, "TARGET_MODEL")
    argv: Arguments = ["trtllm-serve", target, "--config", CONFIG_FILE]
    files = (SettingsFile(CONFIG_FILE, yaml_text(_config(choice, version))),)
    notes = (*common_notes(choice), *draft_notes(choice), *_own_notes(choice))
    return EngineSettings("TensorRT-LLM", str(version), tuple(argv), notes, refusal, files)


def _config(choice: Choice, version: Version) -> dict[str, object]:
    deployment = choice.plan.scenario.deployment
    seqs = deployment.max_num_seqs
    scored = seqs * (1 + _tokens_a_cycle(choice))
    kv: dict[str, object] = {
        "free_gpu_memory_fraction": deployment.memory_utilization,
        "enable_block_reuse": deployment.prefix_caching,
    }
    if deployment.kv_cache_tokens is not None:
        kv["max_tokens"] = deployment.kv_cache_tokens
    if (block_size := choice.own_setting("tensorrt_llm", "block_size")) is not None:
        kv["tokens_per_block"] = block_size
    config: dict[str, object] = {
        "max_batch_size": seqs,
        "max_num_tokens": max(deployment.max_num_batched_tokens, scored),
        "tensor_parallel_size": choice.tensor_parallel,
        "kv_cache_config": kv,
        "cuda_graph_config": {"max_batch_size": seqs, "enable_padding": True},
    }
    if choice.proposer is not None:
        config["speculative_config"] = _speculative_config(choice, choice.proposer, version)
    return config


def _tokens_a_cycle(choice: Choice) -> int:
    """Candidates that a request has scored; PARD scores 2 K tokens in all."""
    is_pard = choice.parallel_drafting and choice.gamma > 0
    return 2 * choice.gamma - 1 if is_pard else choice.num_draft_tokens


def _speculative_config(choice: Choice, proposer: Proposer, version: Version) -> dict[str, object]:
    kind = DECODING_TYPES.get(proposer.kind) or EAGLE_TYPES[eagle_method(proposer)]
    config: dict[str, object] = {"decoding_type": "PARD" if choice.parallel_drafting else kind}
    config["max_draft_len"] = choice.gamma
    if proposer.kind == "ngram":
        longest = ngram_sizes(proposer).get("max_n")
        config |= {"max_matching_ngram_size": longest} if longest else {}
    elif kind != "MTP":
        config["speculative_model"] = model_argument(proposer.model, "DRAFT_MODEL")
    if choice.dynamic_tree is not None:
        config |= {
            "max_total_draft_tokens": choice.dynamic_tree.num_draft_tokens,
            "use_dynamic_tree": True,
            "dynamic_tree_max_topK": choice.dynamic_tree.topk,
        }
    if choice.samples_drafts:
        config["use_rejection_sampling"] = True
    return config | _policy_keys(choice, version)


def _policy_keys(choice: Choice, version: Version) -> dict[str, object]:
    policy = choice.policy
    if isinstance(policy, AcceptanceGate):
        return {
            "acceptance_rate_window_size": policy.window_steps,
            "acceptance_rate_threshold": policy.threshold,
        }
    if not isinstance(policy, BatchSizeTable):
        return {}
    rows = table_rows(policy, choice.gamma, choice.plan.scenario.deployment.max_num_seqs)
    return {
        "max_draft_len": rows[0].num_speculative_tokens,  # the schedule begins with it
        "draft_len_schedule": draft_len_schedule(rows, version),
    }


def draft_len_schedule(rows: tuple[TableRow, ...], version: Version) -> dict[int, int]:
    """Batch size -> draft length: the last of a row in new versions, the first in old ones."""
    by_last = version >= UPPER_BOUNDS_SINCE
    return {(row.last if by_last else row.first): row.num_speculative_tokens for row in rows}


def _own_notes(choice: Choice) -> list[str]:
    notes = [
        "free_gpu_memory_fraction is a share of what the weights leave free, while the plan's "
        "memory_utilization is one of the whole memory: check the KV cache that the engine "
        "reports.",
        "Versions before --config call that flag --extra_llm_api_options.",
    ]
    tokens = choice.plan.scenario.deployment.kv_cache_tokens
    if tokens is not None:
        notes.append(f"max_tokens holds the plan's {tokens:,} tokens of KV cache.")
    if isinstance(choice.policy, AcceptanceGate):
        notes.append("The gate stays closed until the engine is started again.")
    if isinstance(choice.policy, BatchSizeTable):
        notes.append(
            "After a spell without drafts some versions draft from stale KV and accept little: "
            "watch acceptance after the load falls."
        )
    if choice.proposer is not None and choice.proposer.kind == "draft_model":
        notes.append("Draft and target must share one tokenizer.")
    return notes
