"""Acceptance traces: for every output position, what a cycle starting there would do.

`start` is the output index of the first token that the cycle would emit. The text is given, T
tokens long: `output_tokens` that the request keeps, and after them (unless EOS ended it) up to
γ_max more, so that every kept start sees its full depth. One row per start serves every γ.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch

from calibration.model.target import LoadedModel
from calibration.paged.cache import KVCache
from calibration.paged.plan import plan_step
from calibration.paged.query import chunk
from calibration.paged.tables import Holding
from calibration.proposers.ngram import NgramProposer, matches
from calibration.sampling import token_probabilities
from simcore.acceptance.topology.recorded_children import COLUMNS, MAX_DRAWN_CHILDREN
from simcore.acceptance.topology.sibling_rules import SiblingRule, draw_child
from simcore.profile.schema import Sampling

BLOCK_SIZE = 16
RANK_ABSENT = 32767
MAX_RATIO = 1000.0
SIGNIFICANT_DIGITS = 3
STOCHASTIC_COLUMNS = ("ratio", "specinfer_child", "sequoia_child")
UNTEMPERED = Sampling(temperature=1.0)


@dataclass(frozen=True)
class RequestTrace:
    """One request's rows, column by column; lists of lists run over depth."""

    prompt_tokens: int
    output_tokens: int
    proposed: list[int]
    accepted: list[int]
    rank: list[list[int]]
    confidence: list[list[float]]
    ratio: list[list[float]] | None  # None: greedy, or a deterministic proposer
    specinfer_child: list[list[int]] | None = None  # for trees; None where ratio is
    sequoia_child: list[list[int]] | None = None

    def columns(self) -> dict[str, object]:
        """The columns of traces.parquet but for record and request."""
        rows = self.output_tokens
        return asdict(self) | {
            "prompt_tokens": [self.prompt_tokens] * rows,
            "output_tokens": [self.output_tokens] * rows,
            "start": list(range(rows)),
            **{name: getattr(self, name) or [None] * rows for name in STOCHASTIC_COLUMNS},
        }


def ngram_trace(
    proposer: NgramProposer,
    prompt_ids: Sequence[int],
    text_ids: Sequence[int],
    output_tokens: int,
    max_gamma: int,
) -> RequestTrace:
    """Replay the lookup at every start; exact under greedy and sampling, for q is a point mass.

    Confidence at a depth: among the earlier occurrences of the matched n-gram that agree with
    the proposal so far, the share that also continues with its token.
    """
    tokens = np.array([*prompt_ids, *text_ids], dtype=np.int64)
    trace = RequestTrace(len(prompt_ids), output_tokens, [], [], [], [], None)
    for start in range(output_tokens):
        context = tokens[: len(prompt_ids) + start]
        realised = tokens[len(context) : len(context) + max_gamma]
        ends = matches(context, proposer.max_n, proposer.min_n)
        drafts = context[ends[-1] :][:max_gamma] if len(ends) else context[:0]
        depth = min(len(drafts), len(realised))
        agree = drafts[:depth] == realised[:depth]
        trace.proposed.append(len(drafts))
        trace.accepted.append(_leading(agree))
        trace.rank.append([0 if same else RANK_ABSENT for same in agree])
        trace.confidence.append(_shares(context, ends, drafts[:depth]))
    return trace


def _shares(
    context: npt.NDArray[np.int64], ends: npt.NDArray[np.intp], drafts: npt.NDArray[np.int64]
) -> list[float]:
    shares = []
    for depth, draft in enumerate(drafts):
        inside = ends[ends + depth < len(context)]
        agreeing = inside[context[inside + depth] == draft]
        shares.append(round_significant(len(agreeing) / len(ends)))
        ends = agreeing
    return shares


@torch.inference_mode()
def draft_trace(
    target: LoadedModel,
    draft: LoadedModel,
    prompt_ids: Sequence[int],
    text_ids: Sequence[int],
    output_tokens: int,
    max_gamma: int,
    sampling: Sampling,
    rng: np.random.Generator,
) -> RequestTrace:
    """One draft pass over the text: depth k from start i is depth 1 from start i + k - 1.

    Greedy: a draft survives while the draft's argmax is the realised token. Sampled: given the
    emitted token v, the draft was accepted with probability min(1, q(v)/p(v)), drawn from `rng`
    per start and depth. Confidence is the untempered one under greedy.
    """
    realised = torch.tensor(list(text_ids), device=draft.decoder.device)[:, None]  # [T, 1]
    logits = _text_logits(draft, prompt_ids, text_ids)  # [T, V]
    rank = (logits > logits.gather(-1, realised)).sum(-1).clamp_max(RANK_ABSENT - 1).tolist()
    greedy = sampling.temperature == 0.0
    q = token_probabilities(logits, UNTEMPERED if greedy else sampling)  # [T, V]
    confidence = [round_significant(value) for value in q.max(-1).values.tolist()]
    if greedy:
        survival = (logits.argmax(-1) == realised[:, 0]).double().cpu().numpy()  # [T]
        ratio = children = None
    else:
        p = token_probabilities(_text_logits(target, prompt_ids, text_ids), sampling)
        quotient = q.gather(-1, realised) / p.gather(-1, realised)  # [T, 1]; p = 0 gives inf
        capped = torch.nan_to_num(quotient[:, 0], nan=0.0, posinf=MAX_RATIO).clamp_max(MAX_RATIO)
        ratio = [round_significant(value) for value in capped.tolist()]
        survival = np.minimum(1.0, capped.double().cpu().numpy())
        children = _accepting_children(p, q, text_ids, rng.spawn(1)[0])
    windows = [slice(start, start + max_gamma) for start in range(output_tokens)]
    return RequestTrace(
        prompt_tokens=len(prompt_ids),
        output_tokens=output_tokens,
        proposed=[max_gamma] * output_tokens,
        accepted=[_leading(rng.random(len(survival[w])) < survival[w]) for w in windows],
        rank=[rank[w] for w in windows],
        confidence=[confidence[w] for w in windows],
        ratio=None if ratio is None else [ratio[w] for w in windows],
        **{
            COLUMNS[rule]: [column[w] for w in windows] for rule, column in (children or {}).items()
        },
    )


def _accepting_children(
    p: torch.Tensor, q: torch.Tensor, text_ids: Sequence[int], rng: np.random.Generator
) -> dict[SiblingRule, list[int]]:
    """Of each rule that draws its children: which one accepts each of the T tokens.

    `p`, `q` [T, V]. Drawn once a position: what follows does not depend on the tries before.
    """
    target, draft = p.double().cpu().numpy(), q.double().cpu().numpy()
    return {
        rule: [
            draw_child(rule, target[at], draft[at], token, MAX_DRAWN_CHILDREN, rng)
            for at, token in enumerate(text_ids)
        ]
        for rule in COLUMNS
    }


def _text_logits(
    model: LoadedModel, prompt_ids: Sequence[int], text_ids: Sequence[int]
) -> torch.Tensor:
    """Logits [T, V] that predict each of the T tokens of the text, in one pass over all of it."""
    read = [*prompt_ids, *text_ids][:-1]  # [P + T - 1]
    decoder, num_blocks = model.decoder, -(-len(read) // BLOCK_SIZE)
    cache = KVCache(
        decoder.shape, num_blocks, BLOCK_SIZE, dtype=decoder.dtype, device=decoder.device
    )
    cache.target.tables.follow([Holding(0, num_blocks)])
    query = chunk(0, read, 0, num_scored=len(text_ids))
    plan = plan_step([query], cache.target.tables, decoder.device)
    return decoder.forward(plan, cache.target.kv)


def _leading(agree: npt.NDArray[np.bool_]) -> int:
    """How many leading entries are true."""
    return int(np.cumprod(agree).sum())


def round_significant(value: float) -> float:
    """Three significant digits: fine enough for a probability, few enough values to pack well."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def walk_emitted_tokens(trace: RequestTrace, num_speculative_tokens: int) -> list[int]:
    """Emitted tokens of each cycle of the renewal walk that γ drafts a cycle would run.

    Starts at 1, for the prefill emits position 0; the request's end cuts the last cycle.
    """
    emitted = []
    start = 1
    while start < trace.output_tokens:
        survived = min(trace.accepted[start], num_speculative_tokens) + 1
        emitted.append(min(survived, trace.output_tokens - start))
        start += emitted[-1]
    return emitted
