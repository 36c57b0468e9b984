"""The best draft tree of a profile in one call: what `specplan tree best` says, from Python."""

from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.planner.tree_choice import BestTree, TreeLimits, choose_tree
from simcore.planner.tree_recording import tree_recording
from simcore.profile.store import StoredProfile


def best_tree(
    stored: StoredProfile,
    proposer: str,
    *,
    num_nodes: int,
    depth: int,
    batch_size: int | None = None,
    context_tokens: int | None = None,
    temperature: float | None = None,
    domains: tuple[str, ...] = (),
    rule: SiblingRule = SiblingRule.TOP_K,
) -> BestTree:
    """The static tree of at most `num_nodes` candidates and `depth` levels that emits most.

    With a batch, of the size that emits fastest there by the cost law. `temperature` None: the
    lowest recorded; no domains: all. Sequoia's programme (Chen et al. 2024) on the recorded ranks.
    Raises ScenarioError where the profile has no such traces, TreeError where the limits or the
    rule do not fit them.
    """
    recording = tree_recording(stored, proposer, temperature=temperature, domains=domains)
    return choose_tree(
        recording,
        TreeLimits(num_nodes, depth),
        rule,
        batch_size=batch_size,
        context_tokens=context_tokens,
    )
