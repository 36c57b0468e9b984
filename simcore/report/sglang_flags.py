"""A plan as SGLang's command line, and its adaptive file; flags and traps as of LAST."""

import json
from dataclasses import replace

from packaging.version import Version

from simcore.acceptance.topology.sglang_shape import sglang_shape
from simcore.acceptance.tree import DraftTree
from simcore.errors import TreeError
from simcore.profile.schema import Proposer
from simcore.report.abilities import (
    Ability,
    Limit,
    chain,
    fit,
    fixed,
    greedy_drafts,
    serial_drafts,
)
from simcore.report.engine import (
    Arguments,
    Choice,
    EngineSettings,
    SettingsFile,
    common_notes,
    draft_notes,
    eagle_method,
    kv_note,
    model_argument,
    table_rows,
)
from simcore.speculation import AdaptiveEMA, BatchSizeTable, DynamicTree

FIRST, LAST = "0.5.18", "0.5.18"
ADAPTIVE_FILE = "sglang_adaptive.json"
ALGORITHMS = {"ngram": "NGRAM", "draft_model": "STANDALONE"}
EAGLE_ALGORITHMS = {"eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "NEXTN"}
NOT_EAGLE = ("ngram", "draft_model")


def _confidence_tree(choice: Choice) -> Choice:
    """The smallest dynamic tree that can choose the static one."""
    assert choice.tree is not None
    shape = sglang_shape(DraftTree(choice.tree))
    tree = DynamicTree(topk=shape.eagle_topk, num_draft_tokens=shape.num_draft_tokens - 1)
    return replace(choice, tree=None, dynamic_tree=tree, gamma=shape.num_steps)


FIXED_WORDS = "the fixed draft length that the plan chose"
LIMITS = (
    Limit(
        Ability.POLICY_WITH_TREE, "SGLang adapts chains only, not trees", fixed, "the tree always"
    ),
    Limit(
        Ability.STATIC_TREE,
        "SGLang has trees for EAGLE and STANDALONE, not for NGRAM lookups of this shape",
        chain,
        FIXED_WORDS,
        kinds=("ngram",),
    ),
    Limit(
        Ability.STATIC_TREE,
        "in SGLang the draft's confidence shapes a tree anew each cycle",
        _confidence_tree,
        "the smallest such tree that can take this shape, whose acceptance the plan did not "
        "measure",
    ),
    Limit(
        Ability.DYNAMIC_TREE,
        "SGLang has no confidence trees of an n-gram lookup",
        chain,
        FIXED_WORDS,
        kinds=("ngram",),
    ),
    Limit(
        Ability.BATCH_SIZE_TABLE,
        "SGLang adapts EAGLE only, not NGRAM or STANDALONE",
        fixed,
        FIXED_WORDS,
        kinds=NOT_EAGLE,
    ),
    Limit(
        Ability.ADAPTIVE_EMA,
        "SGLang adapts EAGLE only, not NGRAM or STANDALONE",
        fixed,
        FIXED_WORDS,
        kinds=NOT_EAGLE,
    ),
    Limit(
        Ability.ACCEPTANCE_GATE,
        "SGLang has no gate that closes for good when acceptance falls",
        fixed,
        "a fixed draft length with the acceptance alert of this plan",
    ),
    Limit(Ability.GOODPUT, "SGLang has no throughput-aware policy", fixed, FIXED_WORDS),
    Limit(
        Ability.MEMORY_PRESSURE,
        "SGLang retracts requests when memory runs out and never shortens drafts for it",
        fixed,
        FIXED_WORDS,
    ),
    Limit(
        Ability.ADAPTIVE_VERIFICATION,
        "SGLang caps verification by confidence with DSPARK only",
        fixed,
        FIXED_WORDS,
    ),
    Limit(Ability.ORACLE, "no engine knows what will be accepted", fixed, FIXED_WORDS),
    Limit(
        Ability.SAMPLED_DRAFTS,
        "SGLang has rejection sampling of sampled drafts for EAGLE only",
        greedy_drafts,
        "STANDALONE with greedy drafts, whose acceptance the plan did not measure",
        kinds=("draft_model",),
    ),
    Limit(
        Ability.PARALLEL_DRAFTING,
        "SGLang drafts a token a pass with these proposers",
        serial_drafts,
        "one pass a token, which takes longer than the plan says",
    ),
)


def sglang_settings(choice: Choice, version: Version) -> EngineSettings:
    """`sglang.launch_server` with the plan's limits, and K drafts where it speculates.

    SGLang counts the root among the draft tokens: m candidates are m + 1 of them.
    """
    choice, refusal = fit(_static_as_dynamic(choice), LIMITS, version)
    deployment, identity = choice.plan.scenario.deployment, choice.plan.profile.identity
    argv: Arguments = ["python", "-m", "sglang.launch_server"]
    argv += ["--model-path", model_argument(identity.target, "TARGET_MODEL")]
    if choice.tensor_parallel > 1:
        argv += ["--tp-size", str(choice.tensor_parallel)]
    if choice.proposer is not None:
        argv += _speculative_flags(choice, choice.proposer)
    adaptive = _adaptive_config(choice)
    if adaptive is not None:
        argv += ["--speculative-adaptive", "--speculative-adaptive-config", ADAPTIVE_FILE]
    argv += ["--max-running-requests", str(deployment.max_num_seqs)]
    if choice.device == "cuda":
        argv += ["--cuda-graph-max-bs", str(deployment.max_num_seqs)]
        argv += ["--mem-fraction-static", f"{deployment.memory_utilization:g}"]
    else:
        argv += ["--device", "cpu"]
    argv += _scheduler_flags(choice)
    argv += ["--enable-metrics"]  # the plan's alerts read them
    notes = (*common_notes(choice), *kv_note(choice), *draft_notes(choice), *_own_notes(choice))
    files = () if adaptive is None else (SettingsFile(ADAPTIVE_FILE, adaptive),)
    return EngineSettings("SGLang", str(version), tuple(argv), notes, refusal, files)


def _static_as_dynamic(choice: Choice) -> Choice:
    """A static tree whose shape SGLang's three numbers fix becomes those numbers."""
    if choice.tree is None or choice.proposer is None or choice.proposer.kind == "ngram":
        return choice
    try:
        same = sglang_shape(DraftTree(choice.tree)).static_tree().parents == choice.tree
    except TreeError:
        return choice
    return _confidence_tree(choice) if same else choice


def _scheduler_flags(choice: Choice) -> Arguments:
    argv: Arguments = []
    if (page_size := choice.own_setting("sglang", "block_size")) is not None:
        argv += ["--page-size", str(page_size)]
    if not choice.plan.scenario.deployment.prefix_caching:
        argv += ["--disable-radix-cache"]
    if choice.by_priority:
        # Lower goes first in a plan; SGLang's own order is the other way round.
        argv += ["--enable-priority-scheduling", "--schedule-low-priority-values-first"]
    return argv


def _speculative_flags(choice: Choice, proposer: Proposer) -> Arguments:
    num_draft_tokens = str(choice.num_draft_tokens + 1)
    if proposer.kind == "ngram":
        return [
            *("--speculative-algorithm", ALGORITHMS["ngram"]),
            *("--speculative-num-draft-tokens", num_draft_tokens),
            *("--speculative-ngram-min-bfs-breadth", "1"),
            *("--speculative-ngram-max-bfs-breadth", "1"),
        ]
    algorithm = ALGORITHMS.get(proposer.kind) or EAGLE_ALGORITHMS[eagle_method(proposer)]
    topk = choice.dynamic_tree.topk if choice.dynamic_tree else 1
    flags = [
        *("--speculative-algorithm", algorithm),
        *("--speculative-draft-model-path", model_argument(proposer.model, "DRAFT_MODEL")),
        *("--speculative-num-steps", str(choice.gamma)),
        *("--speculative-eagle-topk", str(topk)),
        *("--speculative-num-draft-tokens", num_draft_tokens),
    ]
    if choice.samples_drafts and proposer.kind == "eagle":
        flags.append("--speculative-use-rejection-sampling")
    return flags


def _adaptive_config(choice: Choice) -> str | None:
    """The file of --speculative-adaptive-config: tiers by the smallest batch of each.

    A tier of one candidate is a row of a table.
    """
    policy = choice.policy
    tiers: dict[str, dict[str, object]]
    if isinstance(policy, BatchSizeTable):
        largest = choice.plan.scenario.deployment.max_num_seqs
        rows = table_rows(policy, choice.gamma, largest)
        tiers = {str(row.first): {"candidate_steps": [row.num_speculative_tokens]} for row in rows}
    elif isinstance(policy, AdaptiveEMA):
        tiers = {
            str(begin): {
                "candidate_steps": list(candidates),
                "up_hysteresis": policy.up_hysteresis,
                "down_hysteresis": policy.down_hysteresis,
                "ema_alpha": policy.ema_alpha,
                "update_interval": policy.update_interval,
                "warmup_batches": policy.warmup_steps,
            }
            for begin, candidates in policy.by_batch_size().items()
        }
    else:
        return None
    return json.dumps(tiers, indent=1) + "\n"


def _own_notes(choice: Choice) -> list[str]:
    notes = ["SGLang has no max_num_batched_tokens; its prefill chunks have a limit of their own."]
    if choice.gamma > 0:
        notes.append(
            "--max-running-requests is given because SGLang falls to 48 without it once a "
            "speculative algorithm is set; chunked prefill is not mixed with decoding then."
        )
    if choice.dynamic_tree is not None:
        notes.append(
            "Keep the page size at 1: with larger pages every branch of a tree is rounded up to "
            "whole pages, which takes KV cache from other requests."
        )
    if isinstance(choice.policy, AdaptiveEMA):
        notes.append("SGLang probes by an interval of its own after a spell without drafts.")
    if choice.proposer is not None and choice.proposer.kind == "ngram":
        notes.append(
            "NGRAM looks drafts up in a trie over past text, not in the text of the request "
            "alone: check the acceptance that you get against the plan."
        )
    return notes
