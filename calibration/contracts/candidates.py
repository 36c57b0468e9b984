"""What a request puts before the target in one cycle, and what comes back."""

from dataclasses import dataclass

import torch

from simcore.acceptance.tree import ROOT, DraftTree


@dataclass(frozen=True)
class Candidates:
    """m candidate tokens as a tree below the root, and the distribution they were drawn from.

    A chain is a tree whose nodes have one child each; no node at all is plain decoding. Parents
    are as in DraftTree: -1 is the root, a parent comes before its children, siblings in order of
    trial. `q` [R, V] holds in row 0 what the root's children were drawn from and in row i + 1 what
    the children of candidate i were; rows of leaves are never read and the last may be missing.
    None: the candidates are deterministic, each a point mass.
    """

    parents: tuple[int, ...]
    token_ids: tuple[int, ...]
    q: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if self.parents:
            DraftTree(self.parents)  # raises where they are no tree
        if len(self.parents) != len(self.token_ids):
            raise ValueError(
                f"{len(self.parents)} parents and {len(self.token_ids)} tokens; expected one each "
                "a candidate"
            )
        inner_rows = max(self.parents, default=ROOT) + 2
        if self.parents and self.q is not None and len(self.q) < inner_rows:
            raise ValueError(
                f"q has {len(self.q)} rows; expected {inner_rows}: the root's and one for every "
                "candidate up to the last that has children"
            )

    @property
    def num_nodes(self) -> int:
        """m."""
        return len(self.parents)

    @property
    def is_chain(self) -> bool:
        """Whether no node has two children."""
        return len(set(self.parents)) == len(self.parents)

    def children(self) -> list[list[int]]:
        """Children of the root (entry 0) and of every candidate i (entry i + 1)."""
        found: list[list[int]] = [[] for _ in range(self.num_nodes + 1)]
        for node, parent in enumerate(self.parents):
            found[parent + 1].append(node)
        return found

    def path_to(self, node: int) -> tuple[int, ...]:
        """The nodes from below the root down to `node`; empty for the root."""
        path: list[int] = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return tuple(reversed(path))

    def tokens_at(self, path: tuple[int, ...]) -> list[int]:
        """The tokens of these nodes."""
        return [self.token_ids[node] for node in path]

    def at_nodes(self, distributions: torch.Tensor) -> list[float]:
        """[m] what `distributions` [R, V], by parent as q is, give each candidate's token."""
        if not self.parents:
            return []
        rows = torch.tensor(self.parents, device=distributions.device) + 1
        tokens = torch.tensor(self.token_ids, device=distributions.device)
        found: list[float] = distributions[rows, tokens].tolist()
        return found


def chain_candidates(token_ids: tuple[int, ...], q: torch.Tensor | None = None) -> Candidates:
    """A chain; `q` [γ, V], row by row what each token was drawn from."""
    return Candidates(tuple(range(-1, len(token_ids) - 1)), token_ids, q)


@dataclass(frozen=True)
class Verdict:
    """What one request may emit: the tokens of its accepted path, then one of the target's."""

    path: tuple[int, ...]  # accepted candidates, from below the root down
    next_token: int
    is_bonus: bool  # nothing was rejected where the path ends; else the token is a correction
    is_exact: bool  # False: a relaxed rule, whose text is not the target's

    @property
    def accepted(self) -> int:
        """A: accepted drafts, the next token excluded."""
        return len(self.path)
