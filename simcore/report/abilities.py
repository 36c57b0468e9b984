"""What an engine cannot do, in which of its versions, and the nearest that it can.

Each engine's module lists its Limits; whatever no Limit names, the engine does as the plan says.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from simcore.errors import SpecplanError
from simcore.report.engine import Choice
from simcore.speculation import AdaptiveEMA, BatchSizeTable, FixedPolicy

UNBOUNDED = 2**20  # a batch size that no engine reaches


class Ability(StrEnum):
    """What a plan may ask of an engine; policies by the name of their kind."""

    BATCH_SIZE_TABLE = "batch_size_table"
    RISING_TABLE = "a table whose drafts grow with the batch"
    ADAPTIVE_EMA = "adaptive_ema"
    ACCEPTANCE_GATE = "acceptance_gate"
    GOODPUT = "goodput"
    MEMORY_PRESSURE = "memory_pressure"
    ADAPTIVE_VERIFICATION = "adaptive_verification"
    ORACLE = "oracle"
    STATIC_TREE = "a static tree"
    DYNAMIC_TREE = "a dynamic tree"
    POLICY_WITH_TREE = "a policy with a tree"
    SAMPLED_DRAFTS = "sampled drafts"
    PARALLEL_DRAFTING = "parallel drafting"
    NGRAM = "ngram"
    DRAFT_MODEL = "draft_model"
    EAGLE = "eagle"
    PRIORITY = "priority scheduling"
    CPU = "a CPU"


@dataclass(frozen=True)
class Limit:
    """One thing that an engine cannot do."""

    ability: Ability
    because: str
    nearest: Callable[[Choice], Choice]  # no longer asks for the ability
    nearest_words: str
    missing_in: str = ""  # versions, as a PEP 440 specifier; empty: all
    kinds: tuple[str, ...] = ()  # of proposers that it concerns; empty: all

    def holds(self, choice: Choice, version: Version) -> bool:
        """Whether the choice asks for it and this version cannot."""
        kind = choice.proposer.kind if choice.proposer else ""
        return (
            self.ability in needs(choice)
            and (not self.kinds or kind in self.kinds)
            and SpecifierSet(self.missing_in).contains(version, prereleases=True)
        )


class Fitted(NamedTuple):
    """The nearest choice that an engine can run, and why it is not the plan's; None: it is."""

    choice: Choice
    refusal: str | None


def needs(choice: Choice) -> frozenset[Ability]:
    """Everything that this choice asks of an engine beyond serving."""
    asked: set[Ability] = set()
    if choice.device == "cpu":
        asked.add(Ability.CPU)
    if choice.by_priority:
        asked.add(Ability.PRIORITY)
    if choice.proposer is None:
        return frozenset(asked)
    asked.add(Ability(choice.proposer.kind))
    if choice.policy.kind != "fixed":
        asked.add(Ability(choice.policy.kind))
    if isinstance(choice.policy, BatchSizeTable):
        lengths = [length for _, _, length in choice.policy.table]
        asked |= {Ability.RISING_TABLE} if max(lengths) > lengths[0] else set()
    flags = {
        Ability.STATIC_TREE: choice.tree is not None,
        Ability.DYNAMIC_TREE: choice.dynamic_tree is not None,
        Ability.POLICY_WITH_TREE: choice.is_tree and choice.policy.kind != "fixed",
        Ability.SAMPLED_DRAFTS: choice.samples_drafts,
        Ability.PARALLEL_DRAFTING: choice.parallel_drafting,
    }
    return frozenset(asked | {ability for ability, is_asked in flags.items() if is_asked})


def fit(choice: Choice, limits: tuple[Limit, ...], version: Version) -> Fitted:
    """Go to the nearest for every limit that holds, one after the other."""
    reasons = []
    while found := next((limit for limit in limits if limit.holds(choice, version)), None):
        reasons.append(f"{found.because}; the nearest is {found.nearest_words}")
        choice = found.nearest(choice)
    return Fitted(choice, ". ".join(reasons) or None)


def parse_version(engine: str, text: str, first: str) -> Version:
    """An engine's version, b10400 for llama.cpp. Raises SpecplanError below `first`."""
    try:
        version = Version(text.removeprefix("b"))
    except InvalidVersion:
        raise SpecplanError(
            f"{engine} version {text[:40]!r}; expected one such as {first}"
        ) from None
    if version < Version(first.removeprefix("b")):
        raise SpecplanError(
            f"{engine} {text}: settings are written for {first} and later, whose flags have other "
            "names and meanings; take a later version"
        )
    return version


# --- ways to the nearest ----------------------------------------------------------------------


def fixed(choice: Choice) -> Choice:
    """The draft length that the plan chose, in every step."""
    if choice.is_tree:
        return replace(choice, policy=FixedPolicy())
    gamma = choice.plan.decision.num_speculative_tokens
    return replace(choice, policy=FixedPolicy(), gamma=gamma)


def chain(choice: Choice) -> Choice:
    """A chain of the draft length that the plan chose."""
    return fixed(replace(choice, tree=None, dynamic_tree=None))


def off(choice: Choice) -> Choice:
    """No drafts at all."""
    plain = Choice(choice.plan, None, 0)
    return replace(plain, by_priority=choice.by_priority, device=choice.device)


def greedy_drafts(choice: Choice) -> Choice:
    """Drafts are the draft model's likeliest tokens."""
    return replace(choice, samples_drafts=False)


def serial_drafts(choice: Choice) -> Choice:
    """One pass of the draft a token."""
    return replace(choice, parallel_drafting=False)


def in_order(choice: Choice) -> Choice:
    """First come, first served."""
    return replace(choice, by_priority=False)


def falling_table(choice: Choice) -> Choice:
    """The same table, no longer than its first row; off where that drafts nothing."""
    assert isinstance(choice.policy, BatchSizeTable)
    longest = choice.policy.table[0][2]
    if longest == 0:
        return off(choice)
    rows = tuple((first, last, min(n, longest)) for first, last, n in choice.policy.table)
    policy = BatchSizeTable(kind="batch_size_table", table=rows)
    return replace(choice, policy=policy, gamma=longest)


def ema_as_table(choice: Choice) -> Choice:
    """The longest candidate of every tier; without tiers the length that the plan chose."""
    assert isinstance(choice.policy, AdaptiveEMA)
    tiers = choice.policy.by_batch_size()
    if len(tiers) == 1:
        return fixed(choice)
    begins = list(tiers)
    ends = [begin - 1 for begin in begins[1:]] + [UNBOUNDED]
    rows = tuple(
        (begin, end, max(found))
        for begin, end, found in zip(begins, ends, tiers.values(), strict=True)
    )
    return replace(choice, policy=BatchSizeTable(kind="batch_size_table", table=rows))
