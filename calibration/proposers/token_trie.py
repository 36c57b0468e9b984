"""Several continuations of one text as one tree: what they share is verified once."""

from collections.abc import Iterable, Sequence

from simcore.acceptance.tree import ROOT


def token_trie(
    chains: Iterable[Sequence[int]], most_nodes: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(parents, tokens) of the chains below one root, earlier chains first.

    A chain that would make more than `most_nodes` nodes ends where they are used up.
    """
    parents: list[int] = []
    tokens: list[int] = []
    known: dict[tuple[int, int], int] = {}  # (parent, token) -> node
    for chain in chains:
        node = ROOT
        for token in chain:
            child = known.get((node, token))
            if child is None:
                if len(tokens) == most_nodes:
                    break
                child = known[node, token] = len(tokens)
                parents.append(node)
                tokens.append(token)
            node = child
    return tuple(parents), tuple(tokens)
