"""Trees as plain text for a terminal."""

from simcore.acceptance.topology.layout import depth_first
from simcore.acceptance.tree import ROOT, DraftTree
from simcore.planner.tree_choice import BestTree, TreePrice
from simcore.planner.tree_dynamic import DynamicView
from simcore.planner.tree_view import Measured, TreeView
from simcore.report.units import seconds

MAX_DRAWN_NODES = 64


def tree_drawing(view: TreeView) -> str:
    """The nodes below one another, each with its rank path and the share of cycles through it."""
    tree = DraftTree(view.parents)
    last_child = {parent: node for node, parent in enumerate(view.parents)}
    lines = ["root"]
    for node in depth_first(tree)[:MAX_DRAWN_NODES]:
        bars = []
        above = view.parents[node]
        while above != ROOT:
            bars.append("   " if above == last_child[view.parents[above]] else "│  ")
            above = view.parents[above]
        corner = "└─ " if node == last_child[view.parents[node]] else "├─ "
        each = view.nodes[node]
        lines.append(f"{''.join(reversed(bars))}{corner}{each.path[-1]}  {each.probability:.4f}")
    if view.num_nodes > MAX_DRAWN_NODES:
        lines.append(f"… and {view.num_nodes - MAX_DRAWN_NODES} more nodes")
    return "\n".join(lines)


def tree_text(view: TreeView) -> str:
    """What a tree emits, level by level, and what independence would promise."""
    replayed = view.mean_emitted_tokens.value
    lines = [
        tree_origin(view.origin),
        f"{view.num_nodes} nodes, depth {view.depth}; {view.num_cycles} cycles of "
        f"{view.origin['num_requests']} requests",
        "",
        f"tokens a cycle  {_interval(view.mean_emitted_tokens)}",
        f"  by rates of depth and rank, as if independent  {view.positional_tokens:.3f} "
        f"({view.positional_tokens / replayed - 1:+.1%})",
        f"  by one rate a rank for all depths              {view.one_vector_tokens:.3f} "
        f"({view.one_vector_tokens / replayed - 1:+.1%})",
        "",
        *(
            f"depth {depth} reached  {_interval(share, 4)}"
            for depth, share in enumerate(view.survival, start=1)
        ),
        "",
        "share of cycles that accept each candidate, by rank below its parent:",
        tree_drawing(view),
        "",
        f"choices: {view.choices}",
    ]
    return "\n".join(lines)


def best_tree_text(best: BestTree) -> str:
    """The chosen size, the ways to choose a tree of it, and the tree."""
    lines = [tree_origin(best.origin), ""]
    if best.price is not None:
        lines += [*_price_lines(best.price), ""]
    if best.tree is None:
        return "\n".join([*lines, "No tree emits faster than plain decoding: stay off."])
    lines.append(
        f"{'method':10} {'nodes':>5} {'depth':>5} {'tokens/cycle (95 %)':>26} {'held out':>9}"
    )
    for each in best.candidates:
        held_out = "–" if each.held_out_tokens is None else f"{each.held_out_tokens:.3f}"
        lines.append(
            f"{each.method:10} {each.num_nodes:>5} {each.depth:>5} "
            f"{_interval(each.mean_emitted_tokens):>26} {held_out:>9}"
        )
    return "\n".join([*lines, "", *tree_text(best.tree).splitlines()[1:]])


def dynamic_text(view: DynamicView) -> str:
    """A dynamic tree's tokens a cycle, exact or bounded."""
    found = (
        f"{view.lower_tokens:.3f} tokens a cycle, from recorded places"
        if view.is_exact
        else f"between {view.lower_tokens:.3f} and {view.upper_tokens:.3f} tokens a cycle: bounds, "
        "because the recording holds the realised path's confidences only, not its rivals'"
    )
    return "\n".join(
        [
            tree_origin(view.origin),
            f"topk {view.topk}, depth {view.depth}: {view.num_proposed} nodes proposed, "
            f"{view.num_nodes} verified",
            found,
            f"the best static tree of so many nodes and levels: {view.static_tokens:.3f}",
        ]
    )


def _price_lines(price: TreePrice) -> list[str]:
    lines = [
        f"At batch {price.batch_size} and {price.context_tokens} tokens of context a plain step "
        f"takes {seconds(price.plain_step_s)}.",
        f"{'nodes':>6} {'depth':>5} {'tokens/cycle':>12} {'cycle':>9} {'tokens/s':>9} "
        f"{'speed-up':>9}",
    ]
    for size in price.sizes:
        marks = "  <- chosen" if size.num_nodes == price.chosen_num_nodes else ""
        marks += "  (cost extrapolated)" if size.is_extrapolated else ""
        lines.append(
            f"{size.num_nodes:>6} {size.depth:>5} {size.mean_emitted_tokens:>12.3f} "
            f"{seconds(size.cycle_s):>9} {size.tokens_per_s:>9.1f} {size.speedup:>9.3f}{marks}"
        )
    return lines


def tree_origin(origin: dict[str, object]) -> str:
    """Whose recordings a tree was valued on, in one line."""
    domains = origin["domains"]
    named = ", ".join(map(str, domains)) if isinstance(domains, list) else str(domains)
    return (
        f"Profile {origin['profile']} ({origin['profile_source']}), proposer {origin['proposer']}, "
        f"contract {origin['contract']}, rule {origin['rule']}, domains {named}"
    )


def _interval(measured: Measured, digits: int = 3) -> str:
    low, high = measured.interval
    return f"{measured.value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
