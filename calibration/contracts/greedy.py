"""Greedy equality: the text is that of plain greedy decoding, token for token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from calibration.contracts.candidates import Candidates, Verdict
from calibration.contracts.contract import VerificationContract
from calibration.contracts.longest_path import last_node, longest_path
from calibration.contracts.luck import Luck
from calibration.errors import CalibrationError
from calibration.sampling import NOTHING_TO_EMIT
from simcore.profile.schema import Contract

NO_TOKEN = -1


@dataclass(frozen=True)
class GreedyEquality(VerificationContract):
    """The longest path whose every token is the target's argmax after its parent.

    Reads the order of p alone, so scores will do; where several are equal the first token counts.
    """

    name: str = "greedy_equality"
    promise = Contract.GREEDY_EQUALITY
    reads_probabilities = False

    def verify_one(self, p: torch.Tensor, candidates: Candidates, luck: Luck) -> Verdict:
        """Exact up to the target's own ties; takes no chance."""
        del luck
        return _verdict(_choices(p), candidates)

    def verify(
        self,
        p: torch.Tensor | Sequence[torch.Tensor],
        candidates: Sequence[Candidates],
        generators: Sequence[torch.Generator],
    ) -> list[Verdict]:
        """As for one, with one look at the whole batch where it comes as one tensor."""
        del generators
        choices = _choices(p) if isinstance(p, torch.Tensor) else [_choices(rows) for rows in p]
        return [_verdict(*pair) for pair in zip(choices, candidates, strict=True)]


def _choices(scores: torch.Tensor) -> Any:
    """The argmax of every row [..., V], as nested lists; NO_TOKEN where every score is -inf."""
    choices = scores.argmax(dim=-1, keepdim=True)
    is_out = scores.gather(-1, choices).isneginf()
    return choices.masked_fill(is_out, NO_TOKEN).squeeze(-1).tolist()


def _verdict(choices: list[int], candidates: Candidates) -> Verdict:
    agrees = [
        token == choices[parent + 1]
        for token, parent in zip(candidates.token_ids, candidates.parents, strict=True)
    ]
    path = longest_path(candidates, agrees)
    end = last_node(path)
    if choices[end + 1] == NO_TOKEN:
        raise CalibrationError(NOTHING_TO_EMIT)
    return Verdict(path, choices[end + 1], end not in candidates.parents, is_exact=True)


GREEDY = GreedyEquality()
