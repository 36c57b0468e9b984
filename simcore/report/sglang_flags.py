"""A plan as SGLang's command line; flags and traps as of VERSION."""

from simcore.profile.schema import Proposer
from simcore.report.engine import (
    Arguments,
    Choice,
    EngineSettings,
    common_notes,
    draft_notes,
    model_argument,
)

VERSION = "0.5.18"
ALGORITHMS = {"ngram": "NGRAM", "draft_model": "STANDALONE", "eagle": "EAGLE"}


def sglang_settings(choice: Choice) -> EngineSettings:
    """`sglang.launch_server` with the plan's limits, and a chain of K drafts where it speculates.

    SGLang counts the root among the draft tokens: K drafts are K + 1 of them.
    """
    deployment, identity = choice.plan.scenario.deployment, choice.plan.profile.identity
    argv: Arguments = ["python", "-m", "sglang.launch_server"]
    argv += ["--model-path", model_argument(identity.target, "TARGET_MODEL")]
    if choice.tensor_parallel > 1:
        argv += ["--tp-size", str(choice.tensor_parallel)]
    if choice.proposer is not None:
        argv += _speculative_flags(choice, choice.proposer)
    argv += ["--max-running-requests", str(deployment.max_num_seqs)]
    if identity.hardware.device == "cuda":
        argv += ["--cuda-graph-max-bs", str(deployment.max_num_seqs)]
        argv += ["--mem-fraction-static", f"{deployment.memory_utilization:g}"]
    else:
        argv += ["--device", "cpu"]
    notes = (*common_notes(choice), *draft_notes(choice), *_own_notes(choice))
    return EngineSettings("SGLang", VERSION, tuple(argv), notes, _refusal(choice))


def _speculative_flags(choice: Choice, proposer: Proposer) -> Arguments:
    flags = ["--speculative-algorithm", ALGORITHMS[proposer.kind]]
    if proposer.kind == "ngram":
        return [
            *flags,
            *("--speculative-num-draft-tokens", str(choice.gamma + 1)),
            *("--speculative-ngram-min-bfs-breadth", "1"),
            *("--speculative-ngram-max-bfs-breadth", "1"),
        ]
    flags += [
        *("--speculative-draft-model-path", model_argument(proposer.model, "DRAFT_MODEL")),
        *("--speculative-num-steps", str(choice.gamma)),
        *("--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(choice.gamma + 1)),
    ]
    if choice.samples_drafts and proposer.kind == "eagle":
        flags.append("--speculative-use-rejection-sampling")
    return flags


def _refusal(choice: Choice) -> str | None:
    if choice.samples_drafts and choice.proposer and choice.proposer.kind == "draft_model":
        return (
            "SGLang has rejection sampling of sampled drafts for EAGLE only; the nearest is "
            "STANDALONE with greedy drafts, whose acceptance the plan did not measure"
        )
    return None


def _own_notes(choice: Choice) -> list[str]:
    notes = ["SGLang has no max_num_batched_tokens; its prefill chunks have a limit of their own."]
    if choice.gamma > 0:
        notes.append(
            "--max-running-requests is given because SGLang falls to 48 without it once a "
            "speculative algorithm is set; chunked prefill is not mixed with decoding then."
        )
    if choice.proposer is not None and choice.proposer.kind == "ngram":
        notes.append(
            "NGRAM looks drafts up in a trie over past text, not in the text of the request "
            "alone: check the acceptance that you get against the plan."
        )
    return notes
