"""The scheduling and KV rules of the engines that a deployment can follow.

Read from the engines' source and documents at the versions named; engines move, so every rule
that depends on a version stands here and nowhere else. `plain` follows no engine: it reserves
what a cycle can write and gives everything else back.
"""

from typing import Literal

from simcore.profile.schema import Frozen

Preset = Literal["plain", "vllm", "sglang", "tensorrt_llm", "llama_cpp"]


class EngineRules(Frozen):
    """What differs between engines; everything else they share (scheduler.py)."""

    engine: str
    version: str
    reserves_lookahead: bool = False  # γ more slots for a proposer with KV of its own
    keeps_rejected_blocks: bool = False  # blocks of rejected drafts stay with the request
    holds_double_buffer: bool = False  # twice a step's slots, page aligned, at all times
    prefills_apart: bool = False  # a step prefills or decodes, never both; prefill first
    retracts_youngest: bool = False  # short of blocks: fewest generated tokens go first
    admits_whole_life: bool = False  # only what fits until its max_tokens; never preempts
    has_fixed_slots: bool = False  # every seat owns an equal share of the KV
    pads_drafts: bool = False  # drafts shorter than γ are paid as γ
    has_own_draft_pool: bool = False  # draft KV has a manager and memory of its own
    drops_last_hit: bool = False  # EAGLE recomputes the last block found in the prefix cache
    shortens_last_drafts: bool = False  # drafts no token that max_tokens leaves no room for
    charges_draft_slots: bool = False  # a draft model takes a token more of the step's budget
    # Limits that hold where a deployment states none.
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 8192
    block_size: int = 16


RULES: dict[Preset, EngineRules] = {
    "plain": EngineRules(engine="none", version="specplan"),
    "vllm": EngineRules(
        engine="vLLM V1",
        version="main of 2026-08-17",
        reserves_lookahead=True,
        keeps_rejected_blocks=True,
        drops_last_hit=True,
        charges_draft_slots=True,
        max_num_seqs=256,
    ),
    "sglang": EngineRules(
        engine="SGLang",
        version="0.5.18",
        holds_double_buffer=True,
        prefills_apart=True,
        retracts_youngest=True,
        pads_drafts=True,
        max_num_seqs=48,  # with any speculative algorithm; without one it follows from the memory
        block_size=1,
    ),
    "tensorrt_llm": EngineRules(
        engine="TensorRT-LLM",
        version="1.3/1.4-dev, GUARANTEED_NO_EVICT",
        admits_whole_life=True,
        pads_drafts=True,
        has_own_draft_pool=True,
        block_size=32,
    ),
    "llama_cpp": EngineRules(
        engine="llama.cpp server",
        version="b10400",
        has_fixed_slots=True,
        shortens_last_drafts=True,
        max_num_seqs=4,
        max_num_batched_tokens=2048,
    ),
}


LIMITS = ("max_num_seqs", "max_num_batched_tokens", "block_size")


def default_limits(preset: Preset) -> dict[str, int]:
    """The limits of an engine that nobody set."""
    return {name: getattr(RULES[preset], name) for name in LIMITS}


def sglang_step_slots(steps: int, topk: int, num_draft_tokens: int, page_size: int) -> int:
    """KV slots that SGLang allocates a request a step; `num_draft_tokens` counts the root.

    max(topk · steps, num_draft_tokens) at page size 1 or topk 1; otherwise every branch is
    rounded up to pages, its first page partly full: (5, 4, 8) at page 64 takes 512. Never fewer
    than a step scores, whatever the shape of the tree.
    """
    if page_size == 1 or topk == 1:
        return max(topk * steps, num_draft_tokens)
    pages_per_branch = -(-(page_size - 1 + steps) // page_size)
    return max(pages_per_branch * page_size * topk, num_draft_tokens)
