"""The exact law of anything that takes its chances from a Luck, and a tiny model to verify."""

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache

import torch

from calibration.contracts.candidates import Candidates
from calibration.contracts.contract import VerificationContract
from calibration.contracts.cut import Stopping, cut
from calibration.contracts.judge import read_target
from calibration.contracts.luck import Luck
from calibration.contracts.residual import untried
from calibration.contracts.transforms import Transforms
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import ROOT, DraftTree


class ScriptedLuck:
    """Follows a script of outcomes, then takes the first possible one and notes the others."""

    def __init__(self, script: list[int]) -> None:
        self.script, self.alternatives, self.probability = list(script), [], 1.0
        self._at = 0

    def accepts(self, probability: float) -> bool:
        assert 0.0 <= probability <= 1.0
        return self._choose([probability, 1.0 - probability]) == 0

    def draw(self, weights: torch.Tensor) -> int:
        assert float(weights.min()) >= 0.0
        return self._choose((weights / weights.sum()).tolist())

    def _choose(self, probabilities: list[float]) -> int:
        if self._at == len(self.script):
            possible = [index for index, value in enumerate(probabilities) if value > 0.0]
            self.alternatives += [[*self.script, other] for other in possible[1:]]
            self.script.append(possible[0])
        chosen = self.script[self._at]
        self._at += 1
        self.probability *= probabilities[chosen]
        return chosen


def law(run: Callable[[Luck], Hashable]) -> dict:
    """Every outcome of `run` with its probability: all coins and draws, one after another."""
    found: dict = defaultdict(float)
    scripts: list[list[int]] = [[]]
    while scripts:
        luck = ScriptedLuck(scripts.pop())
        outcome = run(luck)
        found[outcome] += luck.probability
        scripts += luck.alternatives
    assert abs(sum(found.values()) - 1.0) < 1e-9
    return dict(found)


@dataclass(frozen=True)
class TinyModel:
    """Logits after a history depend on its last two tokens: paths and order matter."""

    vocab: int
    seed: int
    spread: float = 1.2

    def logits(self, history) -> torch.Tensor:
        return _table(self.vocab, self.seed, self.spread)[history[-2], history[-1]]

    def over(self, committed, candidates: Candidates) -> torch.Tensor:
        """[m + 1, V] after the root and every candidate."""
        histories = [list(committed)]
        for token, parent in zip(candidates.token_ids, candidates.parents, strict=True):
            histories.append([*histories[parent + 1], token])
        return torch.stack([self.logits(history) for history in histories])


@cache
def _table(vocab: int, seed: int, spread: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (vocab, vocab, vocab)
    return torch.randn(shape, generator=generator, dtype=torch.float64) * spread


def choose_children(rule: SiblingRule, q: torch.Tensor, num_children: int, luck: Luck) -> list[int]:
    """Tokens of a node's children in order of trial, from q [V].

    `specinfer` draws them independently, so that they may repeat; `sequoia` without replacement,
    uniformly over the rest once q is empty; `top_k` takes the likeliest, ties in order of index.
    Each rule's verification (RecursiveRejection) is exact for its own choice. At most V without
    repetition.
    """
    if rule is SiblingRule.TOP_K:
        return _likeliest(q, num_children)
    if rule is SiblingRule.SPECINFER:
        return [luck.draw(q) for _ in range(num_children)]
    tried: list[int] = []
    for _ in range(min(num_children, len(q))):
        tried.append(luck.draw(untried(q, tried)))
    return tried


def _likeliest(q: torch.Tensor, num_tokens: int) -> list[int]:
    smallest_kept = q.topk(min(num_tokens, len(q))).values[-1]
    kept = (q >= smallest_kept).nonzero()[:, 0]  # ascending; few, unless there are ties
    order = q[kept].sort(descending=True, stable=True).indices[:num_tokens]
    found: list[int] = kept[order].tolist()
    return found


def fill_tree(
    draft: TinyModel, tree: DraftTree, rule: SiblingRule, transforms: Transforms, committed, luck
) -> Candidates:
    """Candidates of a static tree, children chosen by the rule from the draft's own q."""
    tokens: dict[int, int] = {}
    histories = {ROOT: list(committed)}
    rows = []
    for node in range(ROOT, tree.num_nodes):
        plain = Transforms(transforms.sampling, transforms.min_p)
        q = plain.probabilities(draft.logits(histories[node]))
        rows.append(q)
        below = [child for child, parent in enumerate(tree.parents) if parent == node]
        for child, token in zip(
            below, choose_children(rule, q, len(below), luck) if below else [], strict=True
        ):
            tokens[child] = token
            histories[child] = [*histories[node], token]
    token_ids = tuple(tokens[node] for node in range(tree.num_nodes))
    drawn = None if rule is SiblingRule.TOP_K else torch.stack(rows)
    return Candidates(tree.parents, token_ids, drawn)


@dataclass(frozen=True)
class Speculation:
    """A target, a draft, and how they meet."""

    target: TinyModel
    draft: TinyModel
    tree: DraftTree
    rule: SiblingRule
    contract: VerificationContract
    transforms: Transforms

    def cycle(self, prompt, output, stopping: Stopping, luck: Luck):
        """(tokens that a cycle emits after prompt + output, why the request ends)."""
        committed = [*prompt, *output]
        candidates = fill_tree(self.draft, self.tree, self.rule, self.transforms, committed, luck)
        logits = self.target.over(committed, candidates)
        p = read_target(self.contract, self.transforms, logits, candidates, committed)
        verdict = self.contract.verify_one(p, candidates, luck)
        tokens = [*candidates.tokens_at(verdict.path), verdict.next_token]
        kept, ending = cut(tokens, stopping, output)
        return tuple(kept), ending

    def text_law(self, prompt, stopping: Stopping) -> dict:
        """The exact law of finished outputs, cycle after cycle."""
        unfinished, finished = {(): 1.0}, defaultdict(float)
        while unfinished:
            output, weight = unfinished.popitem()
            for (tokens, ending), share in law(
                lambda luck, output=output: self.cycle(prompt, output, stopping, luck)
            ).items():
                longer = (*output, *tokens)
                if ending is None:
                    unfinished[longer] = unfinished.get(longer, 0.0) + weight * share
                else:
                    finished[longer] += weight * share
        return dict(finished)


def plain_law(target: TinyModel, transforms: Transforms, prompt, stopping: Stopping) -> dict:
    """The law of outputs when tokens are drawn one by one from the target."""
    unfinished, finished = {(): 1.0}, defaultdict(float)
    while unfinished:
        output, weight = unfinished.popitem()
        history = [*prompt, *output]
        allowed = transforms.constraint.allowed(history) if transforms.constraint else ()
        p = transforms.probabilities(target.logits(history)[None], [history], [allowed])[0]
        for token, share in enumerate(p.tolist()):
            longer = (*output, token)
            if share > 0.0 and stopping.ending(longer) is None:
                unfinished[longer] = unfinished.get(longer, 0.0) + weight * share
            elif share > 0.0:
                finished[longer] += weight * share
    return dict(finished)


def total_variation(first: dict, second: dict) -> float:
    """Half the sum of differences."""
    keys = set(first) | set(second)
    return sum(abs(first.get(key, 0.0) - second.get(key, 0.0)) for key in keys) / 2
