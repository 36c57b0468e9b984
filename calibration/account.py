"""A generation told cycle by cycle."""

from collections.abc import Iterator

from calibration.generate import Generated
from calibration.serve.texts import ServedCycle

MAX_REFUSED = 3  # drafts that a line shows


def account_lines(generated: Generated) -> Iterator[str]:
    """What was asked, one line a cycle, and the sums."""
    settings, identity = generated.settings, generated.target.identity
    topology = settings.topology
    shape = "" if topology is None else f", {_shape(topology.num_nodes, topology.depth)}"
    yield (
        f"target {identity.name} ({identity.dtype}), proposer {settings.proposer}{shape}, "
        f"contract {generated.contract.label}, temperature {settings.temperature:g}"
    )
    yield f"{'cycle':>5}  {'from':>5}  {'proposed':>8}  {'accepted':>8}  emitted"
    for number, cycle in enumerate(generated.served.cycles):
        yield _cycle_line(generated, number, cycle)
    yield from _sums(generated)


def _shape(num_nodes: int, depth: int) -> str:
    return f"chains of {depth}" if num_nodes == depth else f"trees of {num_nodes}, {depth} deep"


def _cycle_line(generated: Generated, number: int, cycle: ServedCycle) -> str:
    drafts = generated.decode(cycle.token_ids[: cycle.accepted])
    own = generated.decode(cycle.token_ids[cycle.accepted :])
    parts = [repr(drafts)] if drafts else []
    if own:
        parts.append(f"{own!r}{_role(generated, cycle)}")
    if cycle.ending is not None:
        parts.append(f"end: {cycle.ending.value}")
    proposed = "-" if cycle.is_prefill else str(cycle.draft.num_candidates)
    accepted = "-" if cycle.is_prefill else str(cycle.accepted)
    return f"{number:>5}  {cycle.start:>5}  {proposed:>8}  {accepted:>8}  {' + '.join(parts)}"


def _role(generated: Generated, cycle: ServedCycle) -> str:
    """Where the target's own token comes from."""
    if cycle.is_prefill:
        return " (prefill)"
    if cycle.draft.num_candidates == 0:
        return ""
    return " (bonus)" if cycle.has_bonus else f" (instead of {_refused(generated, cycle)})"


def _refused(generated: Generated, cycle: ServedCycle) -> str:
    """The drafts that stood where the target's token stands now, the first of many."""
    end = cycle.path[-1] if cycle.path else -1
    nodes = [node for node, parent in enumerate(cycle.draft.parents) if parent == end]
    texts = [repr(generated.decode([cycle.draft.token_ids[node]])) for node in nodes]
    more = [f"{len(texts) - MAX_REFUSED} more"] if len(texts) > MAX_REFUSED else []
    return ", ".join([*texts[:MAX_REFUSED], *more])


def _sums(generated: Generated) -> Iterator[str]:
    cycles = [cycle for cycle in generated.served.cycles if not cycle.is_prefill]
    emitted = sum(len(cycle.token_ids) for cycle in cycles)
    accepted = sum(cycle.accepted for cycle in cycles)
    proposed = sum(cycle.draft.num_candidates for cycle in cycles)
    mean = f", {emitted / len(cycles):.2f} tokens a cycle" if cycles else ""
    total_s = sum(took.total_s for took in generated.served.step_times)
    yield (
        f"{_counted(len(generated.token_ids), 'token')} in {_counted(len(cycles), 'cycle')} "
        f"after the prefill{mean}; "
        f"{accepted} of {proposed} drafts accepted; {total_s:.2f} s"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
