"""Exact sampling by trying siblings in turn: modified rejection on chains, its kin on trees.

At each node the children are tried in order. Child x is accepted with probability
min(1, p(x)/q(x)), else p becomes norm(max(0, p - q)) for its next sibling, and once all are
rejected the next token is drawn from what is left (Leviathan et al. 2023 for one child). Rules
differ in q after a rejection:

- `specinfer` (Miao et al. 2023): the children are independent draws; q stays.
- `sequoia` (Chen et al. 2024, algorithm 2): drawn without replacement; q loses the tried token and
  is uniform over the untried ones once it is empty.
- `top_k` (released EAGLE code): the children are what they are, each a point mass; x is accepted
  with p(x), else p loses x. Exact however the children were chosen, as long as the choice did not
  depend on the target's sample; drafts without a q are verified so under every rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from calibration.contracts.candidates import Candidates, Verdict
from calibration.contracts.contract import VerificationContract
from calibration.contracts.descent import Attempt, descend, point_attempt
from calibration.contracts.luck import Luck
from calibration.contracts.residual import acceptance, residual, untried
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Contract


@dataclass(frozen=True)
class RecursiveRejection(VerificationContract):
    """Exact sampling, sibling by sibling, from the root down."""

    rule: SiblingRule
    verifies_chains_only: bool = False
    promise = Contract.EXACT_SAMPLING

    @property
    def name(self) -> str:
        """Chains: token_wise; trees: by what their siblings are."""
        return "token_wise" if self.verifies_chains_only else self.rule.value

    @property
    def sibling_rule(self) -> SiblingRule | None:  # type: ignore[override]  # depends on the rule
        """With drawn siblings the draws must be those of the rule."""
        free = self.verifies_chains_only or self.rule is SiblingRule.TOP_K
        return None if free else self.rule

    def verify_one(self, p: torch.Tensor, candidates: Candidates, luck: Luck) -> Verdict:
        """Go down while a child is accepted; see the module for each rule."""
        self.check_topology(candidates)
        if candidates.q is None or self.rule is SiblingRule.TOP_K:

            def passes(p_token: float, mass_before: float) -> bool:
                return luck.accepts(acceptance(p_token, 1.0 - mass_before))

            attempt = point_attempt(p, candidates, passes)
        else:
            attempt = _drawn_attempt(p, candidates, candidates.q, self.rule, luck)
        return descend(p, candidates, luck, attempt, is_exact=True)


def _drawn_attempt(
    p: torch.Tensor, candidates: Candidates, q: torch.Tensor, rule: SiblingRule, luck: Luck
) -> Attempt:
    """Children drawn from q; first children need one look at p and q for all nodes together."""
    p_tokens, q_tokens = candidates.at_nodes(p), candidates.at_nodes(q)

    def attempt(node: int, children: Sequence[int]) -> tuple[int | None, torch.Tensor]:
        target, draft = p[node + 1], q[node + 1]
        tried: list[int] = []
        for child in children:
            token = candidates.token_ids[child]
            if tried:
                p_token, q_token = torch.stack([target[token], draft[token]]).tolist()
            else:
                p_token, q_token = p_tokens[child], q_tokens[child]
            if luck.accepts(acceptance(p_token, q_token)):
                return child, target
            tried.append(token)
            target = residual(target, draft)
            if rule is SiblingRule.SEQUOIA:
                draft = untried(draft, tried)
        return None, target

    return attempt


TOKEN_WISE = RecursiveRejection(SiblingRule.SPECINFER, verifies_chains_only=True)
SPECINFER = RecursiveRejection(SiblingRule.SPECINFER)
SEQUOIA = RecursiveRejection(SiblingRule.SEQUOIA)
TOP_K = RecursiveRejection(SiblingRule.TOP_K)
