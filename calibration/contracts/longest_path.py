"""The longest path of candidates that all satisfy a rule of their own."""

from collections.abc import Sequence

from calibration.contracts.candidates import Candidates
from simcore.acceptance.tree import ROOT


def longest_path(candidates: Candidates, is_accepted: Sequence[bool]) -> tuple[int, ...]:
    """The deepest node whose whole path is accepted, as a path; the first of equally deep ones."""
    depth = [0]  # by node + 1; -1: not reached
    for node, parent in enumerate(candidates.parents):
        above = depth[parent + 1]
        depth.append(above + 1 if is_accepted[node] and above >= 0 else -1)
    return candidates.path_to(depth.index(max(depth)) - 1)


def last_node(path: tuple[int, ...]) -> int:
    """Where a path ends; the root for an empty one."""
    return path[-1] if path else ROOT
