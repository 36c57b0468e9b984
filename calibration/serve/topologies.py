"""The topology behind every draft mode of a scenario."""

from calibration.proposers.protocol import Topology
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.tree import DraftTree, chain
from simcore.speculation import DraftMode, DraftScheme, Speculation


def topologies(speculation: Speculation) -> list[Topology | None]:
    """By mode as in `Speculation.modes`; None: nothing is drafted."""
    schemes = speculation.schemes()
    whole = speculation.num_speculative_tokens
    return [
        _topology(mode, schemes[mode.scheme], is_whole=mode.scheme > 0 or index == whole)
        for index, mode in enumerate(speculation.modes())
    ]


def full_topology(speculation: Speculation) -> Topology | None:
    """That of the whole draft."""
    return topologies(speculation)[speculation.num_speculative_tokens]


def _topology(mode: DraftMode, scheme: DraftScheme, *, is_whole: bool) -> Topology | None:
    if mode.depth == 0:
        return None
    if is_whole and scheme.dynamic is not None:
        return DynamicShape(scheme.dynamic.topk, mode.depth, scheme.dynamic.num_draft_tokens)
    if is_whole and scheme.tree is not None:
        return DraftTree(scheme.tree)
    return chain(mode.depth)
