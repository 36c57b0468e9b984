"""A plan as llama-server's command line; flags and traps of llama.cpp as of LAST.

Its flags were renamed in spring 2026 (--draft-max is refused since): FIRST has the new names.
"""

from packaging.version import Version

from simcore.profile.schema import Proposer
from simcore.report.abilities import (
    Ability,
    Limit,
    chain,
    fit,
    fixed,
    greedy_drafts,
    in_order,
    serial_drafts,
)
from simcore.report.engine import (
    Arguments,
    Choice,
    EngineSettings,
    common_notes,
    draft_notes,
    eagle_method,
    model_argument,
    ngram_sizes,
)
from simcore.workload_kinds import FixedLengths, LognormalLengths

FIRST, LAST = "b9235", "b10400"
ALL_LAYERS = "999"
TYPES = {"ngram": "ngram-simple", "draft_model": "draft-simple"}
EAGLE_TYPES = {"eagle": "draft-eagle3", "eagle3": "draft-eagle3", "mtp": "draft-mtp"}
FIXED_WORDS = "the fixed draft length that the plan chose"
NO_POLICY = "llama-server drafts alike at every load and acceptance"
LIMITS = (
    Limit(Ability.POLICY_WITH_TREE, "llama-server drafts no trees", chain, "a chain"),
    Limit(Ability.STATIC_TREE, "llama-server drafts no trees", chain, FIXED_WORDS),
    Limit(Ability.DYNAMIC_TREE, "llama-server drafts no trees", chain, FIXED_WORDS),
    Limit(Ability.BATCH_SIZE_TABLE, NO_POLICY, fixed, FIXED_WORDS),
    Limit(Ability.ADAPTIVE_EMA, NO_POLICY, fixed, FIXED_WORDS),
    Limit(Ability.ACCEPTANCE_GATE, NO_POLICY, fixed, FIXED_WORDS),
    Limit(Ability.GOODPUT, NO_POLICY, fixed, FIXED_WORDS),
    Limit(Ability.MEMORY_PRESSURE, NO_POLICY, fixed, FIXED_WORDS),
    Limit(Ability.ADAPTIVE_VERIFICATION, "llama-server verifies every draft", fixed, FIXED_WORDS),
    Limit(Ability.ORACLE, "no engine knows what will be accepted", fixed, FIXED_WORDS),
    Limit(
        Ability.SAMPLED_DRAFTS,
        "llama-server accepts a draft where the target's own sample equals it, without rejection "
        "sampling",
        greedy_drafts,
        "that rule, exact as well, whose acceptance the plan did not measure",
    ),
    Limit(
        Ability.PARALLEL_DRAFTING,
        "llama-server drafts a token a pass",
        serial_drafts,
        "one pass a token, which takes longer than the plan says",
    ),
    Limit(
        Ability.PRIORITY,
        "llama-server has no priorities",
        in_order,
        "first come, first served",
    ),
)


def llama_cpp_settings(choice: Choice, version: Version) -> EngineSettings:
    """`llama-server` with a slot for every running request, and an equal share of the context."""
    choice, refusal = fit(choice, LIMITS, version)
    deployment, identity = choice.plan.scenario.deployment, choice.plan.profile.identity
    argv: Arguments = ["llama-server", "--model", "TARGET_MODEL.gguf"]
    argv += ["--parallel", str(deployment.max_num_seqs)]
    context = context_tokens(choice)
    if context is not None:
        argv += ["--ctx-size", str(context)]
    argv += ["--batch-size", str(deployment.max_num_batched_tokens)]
    if choice.device == "cuda":
        argv += ["--n-gpu-layers", ALL_LAYERS]
    elif identity.hardware.threads is not None:
        argv += ["--threads", str(identity.hardware.threads)]
    if not deployment.prefix_caching:
        argv += ["--no-cache-prompt"]
    if choice.proposer is not None:
        argv += _speculative_flags(choice, choice.proposer)
    argv += ["--metrics"]
    notes = (*common_notes(choice), *_file_notes(choice), *_own_notes(choice, context))
    return EngineSettings("llama.cpp", f"b{version}", tuple(argv), notes, refusal)


def context_tokens(choice: Choice) -> int | None:
    """--ctx-size, the KV of all slots together: the plan's, or slots times the longest request."""
    deployment = choice.plan.scenario.deployment
    if deployment.kv_cache_tokens is not None:
        return deployment.kv_cache_tokens
    longest = _longest_request_tokens(choice)
    return None if longest is None else deployment.max_num_seqs * (longest + choice.gamma)


def _longest_request_tokens(choice: Choice) -> int | None:
    lengths = choice.plan.scenario.workload.lengths
    if isinstance(lengths, LognormalLengths):
        return lengths.prompt.max_tokens + lengths.output.max_tokens
    if isinstance(lengths, FixedLengths):
        return lengths.prompt_tokens + lengths.output_tokens
    return None


def _speculative_flags(choice: Choice, proposer: Proposer) -> Arguments:
    if proposer.kind == "ngram":
        flags = ["--spec-type", TYPES["ngram"], "--spec-ngram-simple-size-m", str(choice.gamma)]
        longest = ngram_sizes(proposer).get("max_n")
        return flags + (["--spec-ngram-simple-size-n", str(longest)] if longest else [])
    kind = TYPES.get(proposer.kind) or EAGLE_TYPES[eagle_method(proposer)]
    flags = ["--spec-type", kind]
    if kind != "draft-mtp":
        flags += ["--spec-draft-model", "DRAFT_MODEL.gguf"]
    if choice.device == "cuda":
        flags += ["--spec-draft-ngl", ALL_LAYERS]
    # All three are stated: their defaults changed between versions.
    flags += ["--spec-draft-n-max", str(choice.gamma), "--spec-draft-n-min", "0"]
    return [*flags, "--spec-draft-p-min", "0"]


def _file_notes(choice: Choice) -> list[str]:
    target = choice.plan.profile.identity.target.name
    notes = [f"llama.cpp reads GGUF files: TARGET_MODEL.gguf stands for {target}."]
    if choice.proposer is None or choice.proposer.kind == "ngram":
        return notes
    if model_argument(choice.proposer.model, "") == "":
        return [*notes, *draft_notes(choice)]
    named = model_argument(choice.proposer.model, "")
    return [*notes, f"DRAFT_MODEL.gguf stands for {named}."]


def _own_notes(choice: Choice, context: int | None) -> list[str]:
    slots = choice.plan.scenario.deployment.max_num_seqs
    notes = []
    if context is not None:
        a_slot = context // slots
        words = f"Each of {slots} slots owns {a_slot:,} tokens of the {context:,} tokens of KV"
        longest = _longest_request_tokens(choice)
        short = longest is not None and a_slot < longest
        notes.append(f"{words}{'; longer requests are refused or cut.' if short else '.'}")
    else:
        notes.append("Set --ctx-size to slots times the longest request: a slot owns its share.")
    if choice.proposer is not None and choice.proposer.kind == "ngram":
        notes.append(
            "ngram-simple looks up n-grams of one size only; check the acceptance that you get "
            "against the plan."
        )
    if choice.proposer is not None and choice.proposer.kind == "eagle":
        notes.append("llama.cpp has EAGLE-3 and MTP heads; EAGLE heads of other kinds do not load.")
    return notes
