"""What every engine's settings are made of: the plan's choice, argument lists, shell text."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import yaml

from simcore.engines import RULES, Preset
from simcore.errors import SpecplanError
from simcore.planner.document import Plan
from simcore.profile.schema import Contract, ModelIdentity, Proposer
from simcore.speculation import BatchSizeTable, DynamicTree, FixedPolicy, Policy

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
Arguments = list[str]
FIXED = FixedPolicy()


class SettingsFile(NamedTuple):
    """A file that a command names; it lies beside the command's script."""

    name: str
    content: str


class TableRow(NamedTuple):
    """Draft length of the batch sizes from `first` to `last`, both inside."""

    first: int
    last: int
    num_speculative_tokens: int


@dataclass(frozen=True)
class EngineSettings:
    """How to start one engine as the plan says; `refusal` says why it cannot be done exactly."""

    engine: str
    version: str  # that the flags were written for
    argv: tuple[str, ...]  # where refused: the nearest that the engine can do
    notes: tuple[str, ...]
    refusal: str | None = None
    files: tuple[SettingsFile, ...] = ()

    @property
    def command(self) -> str:
        """One line to paste into a POSIX shell."""
        return shlex.join(self.argv)


@dataclass(frozen=True)
class Choice:
    """What an engine is asked to run."""

    plan: Plan
    proposer: Proposer | None  # None: off
    gamma: int  # the longest chain, or the depth of the tree; 0: off
    policy: Policy = FIXED
    tree: tuple[int, ...] | None = None
    dynamic_tree: DynamicTree | None = None
    samples_drafts: bool = False  # drawn from the draft model's own distribution when measured
    parallel_drafting: bool = False  # all drafts of a cycle in one pass of the draft
    by_priority: bool = False
    device: Literal["cpu", "cuda"] = "cuda"

    @property
    def tensor_parallel(self) -> int:
        """GPUs of one replica."""
        return self.plan.profile.identity.tensor_parallel

    @property
    def is_tree(self) -> bool:
        """Whether candidates branch."""
        return self.tree is not None or self.dynamic_tree is not None

    @property
    def num_draft_tokens(self) -> int:
        """m: candidates that a request has verified in one cycle; the root is not counted."""
        if self.tree is not None:
            return len(self.tree)
        return self.dynamic_tree.num_draft_tokens if self.dynamic_tree else self.gamma

    def own_setting(self, name: Preset, field: str) -> int | None:
        """A limit of the plan that is this engine's and not its default, such as block_size."""
        deployment = self.plan.scenario.deployment
        value = getattr(deployment, field)
        is_own = deployment.preset == name and value != getattr(RULES[name], field)
        return int(value) if is_own else None


def choice_of(plan: Plan) -> Choice:
    """The decision, or the scenario's own policy or tree where it states one and drafts pay.

    Raises SpecplanError where the plan decides for a proposer that its profile lacks.
    """
    by_priority = plan.scenario.deployment.scheduling == "priority"
    device = plan.profile.identity.hardware.device
    name = plan.decision.proposer
    if plan.decision.choice == "off" or name is None:
        return Choice(plan, None, 0, by_priority=by_priority, device=device)
    proposer, asked = plan.profile.proposers.get(name), plan.scenario.speculation
    if proposer is None:
        raise SpecplanError(
            f"the plan decides for proposer {name!r}, its profile names "
            f"{sorted(plan.profile.proposers)}; expected it there: write the plan again"
        )
    gamma, policy = plan.decision.num_speculative_tokens, asked.policy
    tree, dynamic = None, None
    if has_own_way(plan):
        gamma = max(asked.draft_lengths())
        tree, dynamic = asked.tree, asked.dynamic_tree
    else:
        policy = FIXED
    branches = tree is not None or dynamic is not None
    sampled = plan.scenario.contract is Contract.EXACT_SAMPLING and proposer.kind != "ngram"
    return Choice(
        plan,
        proposer,
        gamma,
        policy,
        tree,
        dynamic,
        samples_drafts=sampled and not branches,  # children of a tree are the draft's best
        parallel_drafting=bool(proposer.settings.get("parallel_drafting")),
        by_priority=by_priority,
        device=device,
    )


def has_own_way(plan: Plan) -> bool:
    """Whether the scenario states a policy or tree, which a plan leaves out of its comparison."""
    asked = plan.scenario.speculation
    if asked.num_speculative_tokens == 0 or plan.decision.proposer != asked.proposer:
        return False
    return asked.policy.kind != "fixed" or asked.schemes()[0].is_tree


def table_rows(table: BatchSizeTable, longest: int, largest: int) -> tuple[TableRow, ...]:
    """Rows without gaps up to the batch size `largest`: what no row names keeps the one before."""
    rows = [row for row in table.table if row[0] <= largest]
    ends = [first - 1 for first, _, _ in rows[1:]] + [largest]
    return tuple(
        TableRow(first, end, min(length, longest))
        for (first, _, length), end in zip(rows, ends, strict=True)
    )


def json_text(value: Mapping[str, Any]) -> str:
    """One line for a command's argument."""
    return json.dumps(value, separators=(",", ":"))


def yaml_text(value: Mapping[str, Any]) -> str:
    """A YAML document; keys stay in the order given."""
    return yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True)


def model_argument(model: ModelIdentity | None, placeholder: str) -> str:
    """A hub id as the profile gives it, or the placeholder to replace."""
    if model is not None and HUB_ID.fullmatch(model.name):
        return model.name
    return placeholder


def common_notes(choice: Choice) -> list[str]:
    """Caveats that hold for every engine."""
    plan, identity = choice.plan, choice.plan.profile.identity
    deployment = plan.scenario.deployment
    notes = []
    if model_argument(identity.target, "") == "":
        notes.append(f"Replace TARGET_MODEL: the target of the profile is {identity.target.name}.")
    if identity.target.quantization != "none":
        notes.append(
            f"Serve the target quantized as measured ({identity.target.quantization}): "
            "quantization changes cost and acceptance."
        )
    if identity.hardware.device != "cuda":
        notes.append(
            f"The profile was measured on a CPU with {identity.engine.name}; its speed-up does "
            "not carry over to another machine or engine. Measure there first."
        )
    if deployment.replicas > 1:
        notes.append(
            f"One replica of {deployment.replicas}: start each alike, behind a load balancer."
        )
    if deployment.max_queue is not None:
        notes.append(
            f"The plan rejects beyond {deployment.max_queue} waiting requests of a replica: set "
            "that limit in front of the engine."
        )
    if plan.scenario.speculation.plain_fraction > 0.0 and choice.gamma > 0:
        notes.append("Requests whose adapter or grammar rules drafts out run plain by themselves.")
    notes += _way_notes(choice)
    if choice.gamma > 0:
        notes.append(_edge_note(plan))
    return notes


def kv_note(choice: Choice) -> list[str]:
    """For engines that size their KV cache by the memory alone."""
    tokens = choice.plan.scenario.deployment.kv_cache_tokens
    if tokens is None:
        return []
    return [
        f"The plan gives a replica {tokens:,} tokens of KV cache; the command leaves the KV cache "
        "to what the engine takes of the memory."
    ]


def _way_notes(choice: Choice) -> list[str]:
    if choice.policy.kind == "fixed" and not choice.is_tree:
        return []
    decided = choice.plan.decision.num_speculative_tokens
    return [
        "The policy or tree is the scenario's own. The plan compared fixed draft lengths, of "
        f"which γ = {decided} was the best; simulate the scenario before you serve it so."
    ]


def draft_notes(choice: Choice) -> list[str]:
    """What to fill in for the draft, and what the profile leaves open about it."""
    proposer = choice.proposer
    if proposer is None or proposer.kind == "ngram":
        return []
    notes = []
    if model_argument(proposer.model, "") == "":
        named = proposer.model.name if proposer.model else "not named by the profile"
        notes.append(f"Replace DRAFT_MODEL: the draft of the profile is {named}.")
    if proposer.kind == "eagle" and eagle_method(proposer) == "eagle":
        notes.append("The profile does not say which EAGLE it is: name eagle3 for EAGLE-3 heads.")
    return notes


def eagle_method(proposer: Proposer) -> str:
    """eagle, eagle3 or mtp; a profile may say which as its proposer's setting `method`."""
    method = proposer.settings.get("method")
    return method if method in ("eagle3", "mtp") and isinstance(method, str) else "eagle"


def ngram_sizes(proposer: Proposer) -> dict[str, int]:
    """Longest (max_n) and shortest (min_n) n-gram looked up, where the profile states them."""
    found = {name: proposer.settings.get(name) for name in ("max_n", "min_n")}
    return {name: size for name, size in found.items() if isinstance(size, int) and size > 0}


def _edge_note(plan: Plan) -> str:
    edge = plan.break_even
    if edge.rate_per_s is None:
        return f"Load: {edge.reason}."
    return (
        f"Speculation pays up to {edge.rate_per_s:.3g} requests/s over "
        f"{plan.scenario.deployment.replicas} replica(s); start without the speculative flags "
        "where the load stays above."
    )
