"""Proposers of calibration's own loop in an engine: with its own words for them, or refused."""

import json
from collections.abc import Callable
from dataclasses import replace

from simcore.profile.schema import Proposer
from simcore.report.engine import FIXED, Choice, EngineSettings

WRITTEN = ("ngram", "draft_model", "eagle")  # by every engine's own settings
VLLM_SUFFIX = {  # vLLM's key: the profile's setting
    "suffix_decoding_max_tree_depth": "max_match_tokens",
    "suffix_decoding_max_spec_factor": "factor",
    "suffix_decoding_min_token_prob": "min_token_prob",
}


def settings_or_refusal(
    choice: Choice, write: Callable[[Choice], EngineSettings]
) -> EngineSettings:
    """An engine's settings; a proposer that it cannot run is refused, the target served plainly."""
    proposer = choice.proposer
    if proposer is None or proposer.kind in WRITTEN:
        return write(choice)
    off = replace(
        choice,
        proposer=None,
        gamma=0,
        policy=FIXED,
        tree=None,
        dynamic_tree=None,
        samples_drafts=False,
    )
    plain = write(off)
    if proposer.kind == "suffix" and plain.engine == "vLLM" and not choice.is_tree:
        as_chain = write(replace(off, gamma=choice.gamma))
        return _with_vllm_suffix(as_chain, proposer, choice.gamma)
    return replace(
        plain,
        refusal=(
            f"{plain.engine} has no {proposer.kind} proposer that can be asked for by a flag; the "
            "nearest is plain decoding, which is not what the plan decided for"
        ),
    )


def _with_vllm_suffix(plain: EngineSettings, proposer: Proposer, gamma: int) -> EngineSettings:
    config: dict[str, object] = {"method": "suffix", "num_speculative_tokens": gamma}
    config |= {
        key: proposer.settings[name]
        for key, name in VLLM_SUFFIX.items()
        if name in proposer.settings
    }
    text = json.dumps(config, separators=(",", ":"))
    note = "Suffix decoding in vLLM needs the arctic-inference package."
    return replace(
        plain,
        argv=(*plain.argv, "--speculative-config", text),
        notes=(*plain.notes, note),
    )
