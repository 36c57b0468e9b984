"""From the target's logits to verdicts: each request's transforms, then the contract."""

from collections.abc import Collection, Sequence

import torch

from calibration.contracts.candidates import Candidates, Verdict
from calibration.contracts.contract import VerificationContract
from calibration.contracts.transforms import Constraint, History, Transforms


def judge(
    contract: VerificationContract,
    logits: torch.Tensor | Sequence[torch.Tensor],
    candidates: Sequence[Candidates],
    transforms: Sequence[Transforms],
    generators: Sequence[torch.Generator],
    committed: Sequence[History] | None = None,
) -> list[Verdict]:
    """One verdict a request.

    `logits` [B, M + 1, V], or a tensor [m + 1, V] a request where they differ: over the root and
    every candidate in their order; rows past a request's own are ignored. `committed`: prompt and
    output up to and including the root, which transforms that read the history need.
    """
    first = transforms[0]
    is_alike = not first.reads_history and all(each == first for each in transforms)
    if is_alike and isinstance(logits, torch.Tensor):
        return contract.verify(read_target(contract, first, logits), candidates, generators)
    rows = [
        read_target(
            contract,
            of_request,
            logits[row][: candidates[row].num_nodes + 1],
            candidates[row],
            committed[row] if committed is not None else None,
        )
        for row, of_request in enumerate(transforms)
    ]
    return contract.verify(rows, candidates, generators)


def node_histories(committed: History, candidates: Candidates) -> list[list[int]]:
    """[m + 1] what the target has read after the root and after every candidate."""
    histories = [list(committed)]
    for token, parent in zip(candidates.token_ids, candidates.parents, strict=True):
        histories.append([*histories[parent + 1], token])
    return histories


def allowed_tokens(
    constraint: Constraint, histories: Sequence[History], candidates: Candidates
) -> list[Collection[int]]:
    """[m + 1] tokens that may follow the root and every candidate.

    The constraint is never asked about a history that it forbids: below a forbidden candidate
    nothing is allowed, and nothing there is reached.
    """
    allowed: list[Collection[int]] = [constraint.allowed(histories[0])]
    for node, (token, parent) in enumerate(
        zip(candidates.token_ids, candidates.parents, strict=True)
    ):
        is_possible = token in allowed[parent + 1]
        allowed.append(constraint.allowed(histories[node + 1]) if is_possible else ())
    return allowed


def read_target(
    contract: VerificationContract,
    transforms: Transforms,
    logits: torch.Tensor,
    candidates: Candidates | None = None,
    committed: History | None = None,
) -> torch.Tensor:
    """What the contract verifies against: p [..., V] of `logits`, or scores where they suffice.

    Raises ValueError where transforms read a history and candidates or `committed` are missing.
    """
    histories: Sequence[History] = ()
    allowed: Sequence[Collection[int]] = ()
    if transforms.reads_history:
        if candidates is None or committed is None:
            raise ValueError("penalty or constraint without the committed tokens; pass them")
        histories = node_histories(committed, candidates)
        if transforms.constraint is not None:
            allowed = allowed_tokens(transforms.constraint, histories, candidates)
    if contract.reads_probabilities:
        return transforms.probabilities(logits, histories, allowed)
    return transforms.scores(logits, histories, allowed)
