"""A scenario: the workload, the deployment and the speculation that one simulation runs.

Read from YAML (`load_scenario`) or built in Python; every field has its unit in its name and its
definition in docs/reference/glossary.md. The profile that it names supplies the measured numbers.
"""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from simcore.engines import RULES, Preset, default_limits
from simcore.errors import ScenarioError
from simcore.profile.schema import Contract, Frozen, Sampling
from simcore.speculation import Speculation
from simcore.validation import describe_validation_error
from simcore.workload_kinds import (
    BatchArrivals,
    LognormalLengths,
    LognormalTokens,
    PoissonArrivals,
    RecordedLengths,
    Workload,
)

__all__ = [
    "SLO",
    "BatchArrivals",
    "Deployment",
    "LognormalLengths",
    "LognormalTokens",
    "PoissonArrivals",
    "RecordedLengths",
    "Scenario",
    "Speculation",
    "Workload",
    "dump_scenario",
    "load_scenario",
    "parse_scenario",
    "read_scenario",
]

# Beyond these no service lives, and the kernel's numbers would overflow.
MAX_BATCH, MAX_COUNT, MAX_KV_TOKENS = 1_000_000, 1_000_000_000, 10**15

MAX_YAML_VALUES = 100_000  # of a file, aliases written out
UNUSUAL_BREAKS = re.compile("[\r\x85\u2028\u2029]")
REQUEST_LIMITS = ("ttft_s", "tpot_s", "itl_s", "e2e_s")  # of the SLO
EVERY_LIMIT = "every_limit"
USUAL_GOODPUT_FRACTION = 0.95

DATA_PATHS = ("arrivals.path", "lengths.path", "lengths.file.path")  # of the workload

# --- deployment: what serves -------------------------------------------------------------------


class Outage(Frozen):
    """A replica fails, and is back some time later."""

    replica: int = Field(ge=0, description="its number, counted from 0")
    at_s: float = Field(ge=0.0, description="after the first moment of the run")
    for_s: float = Field(gt=0.0, description="until it serves again, start-up included")

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if self.at_s + self.for_s == self.at_s:
            raise ValueError(
                f"an outage at {self.at_s} s for {self.for_s} s ends at the very moment that it "
                "begins; expected times that a clock can tell apart: raise for_s"
            )
        return self


class Failures(Frozen):
    """Replicas that fail, also in the middle of a step: their KV is lost."""

    outages: tuple[Outage, ...] = ()
    mean_time_between_s: float | None = Field(
        None, ge=1.0, description="of one replica, exponential; null: only the outages listed"
    )
    mean_repair_s: float = Field(120.0, gt=0.0, description="exponential, start-up included")
    requests: Literal["retry", "fail"] = Field(
        "retry", description="lost requests are sent to another replica, or fail"
    )
    max_restarts: int = Field(
        100, ge=1, le=1_000_000, description="of one request; lost once more, it fails"
    )

    @model_validator(mode="after")
    def _check_outages(self) -> Self:
        if self.outages and self.mean_time_between_s is not None:
            raise ValueError("outages and mean_time_between_s exclude each other; give one")
        for replica in {outage.replica for outage in self.outages}:
            own = sorted((o for o in self.outages if o.replica == replica), key=lambda o: o.at_s)
            if not all(a.at_s + a.for_s < b.at_s for a, b in pairwise(own)):
                raise ValueError(
                    f"outages of replica {replica} overlap or touch; expected one after the other"
                )
        return self


class Deployment(Frozen):
    """Replicas of one engine and their limits; names are vLLM's."""

    preset: Preset = Field("plain", description="the engine whose rules are followed")
    replicas: int = Field(1, ge=1, le=1024, description="copies of the engine")
    # Left out, these three are the preset's own (simcore/engines.py).
    block_size: int = Field(16, ge=1, le=MAX_BATCH, description="tokens of one KV block")
    max_num_seqs: int = Field(64, ge=1, le=MAX_BATCH, description="running requests of one replica")
    max_num_batched_tokens: int = Field(8192, ge=1, le=MAX_COUNT, description="tokens of one step")
    memory_utilization: float = Field(
        0.9, gt=0.0, le=1.0, description="share of the device's memory that the engine takes"
    )
    kv_cache_tokens: int | None = Field(
        None,
        ge=1,
        le=MAX_KV_TOKENS,
        description="KV room of one replica; default: what memory leaves",
    )
    routing: Literal["round_robin", "least_outstanding", "session_affinity"] = Field(
        "round_robin",
        description="in turn; to the replica with the fewest tokens on its hands; to the one of "
        "the session's turn before",
    )
    scheduling: Literal["fcfs", "priority"] = Field(
        "fcfs", description="first come first served, or by the priority of the domain first"
    )
    prefix_caching: bool = Field(
        True, description="blocks of shared prefixes are kept and found again"
    )
    watermark: float = Field(
        0.0, ge=0.0, lt=1.0, description="share of the blocks that admission leaves free"
    )
    max_queue: int | None = Field(
        None,
        ge=0,
        le=MAX_COUNT,
        description="waiting requests of one replica; beyond, arrivals are rejected",
    )
    draft_pool: Literal["auto", "shared", "own"] = Field(
        "auto", description="draft KV in the target's blocks, or in a pool of its own; auto: preset"
    )
    draft_block_size: int | None = Field(
        None, ge=1, le=MAX_BATCH, description="of a draft pool of its own; null: block_size"
    )
    draft_kv_fraction: float | None = Field(
        None, gt=0.0, lt=1.0, description="of the KV memory; null: both pools hold as many tokens"
    )
    failures: Failures = Failures()

    @model_validator(mode="before")
    @classmethod
    def _take_limits_of_preset(cls, raw: Any) -> Any:
        preset = raw.get("preset", "plain") if isinstance(raw, dict) else None
        return {**default_limits(preset), **raw} if preset in RULES else raw

    @model_validator(mode="after")
    def _check_replicas(self) -> Self:
        unknown = [o.replica for o in self.failures.outages if o.replica >= self.replicas]
        if unknown:
            raise ValueError(
                f"outages name replicas {sorted(set(unknown))}; there are {self.replicas}, counted "
                "from 0"
            )
        return self

    @model_validator(mode="after")
    def _check_draft_pool(self) -> Self:
        if self.draft_pool == "own" and RULES[self.preset].has_fixed_slots:
            raise ValueError(
                f"preset {self.preset!r} gives every seat an equal share of the KV room, the "
                "draft's inside it; leave draft_pool at 'auto'"
            )
        own = self.draft_pool == "own" or (
            self.draft_pool == "auto" and RULES[self.preset].has_own_draft_pool
        )
        stated = [n for n in ("draft_block_size", "draft_kv_fraction") if getattr(self, n)]
        if stated and not own:
            raise ValueError(
                f"{stated[0]} is of a draft pool of its own, but draft KV lies in the target's "
                f"blocks (preset {self.preset!r}); set draft_pool to 'own' or leave it out"
            )
        return self


# --- objective -----------------------------------------------------------------


class SLO(Frozen):
    """What a request must meet to count as goodput, and how many requests must.

    An absent limit is not checked. `percentile` and `goodput_fraction` are of the service: they
    decide whether it meets the SLO at a load (capacity), and change no request's goodput.
    """

    ttft_s: float | None = Field(None, gt=0.0)
    tpot_s: float | None = Field(None, gt=0.0)
    itl_s: float | None = Field(
        None,
        gt=0.0,
        description="of the longest gap between two emissions of a request: the same per token and "
        "per burst, since tokens of one burst come together",
    )
    e2e_s: float | None = Field(None, gt=0.0)
    percentile: float | None = Field(
        None, gt=0.0, lt=100.0, description="each limit holds at this percentile of the requests"
    )
    goodput_fraction: float | None = Field(
        None,
        gt=0.0,
        lt=1.0,
        description="share of the requests that meet every limit; null: 0.95 where percentile is "
        "null too",
    )

    def limits(self) -> dict[str, float]:
        """Field -> limit in seconds, of those that are checked."""
        stated = {name: getattr(self, name) for name in REQUEST_LIMITS}
        return {name: limit for name, limit in stated.items() if limit is not None}

    def required_shares(self) -> dict[str, float]:
        """Share of the requests that must meet each limit, and EVERY_LIMIT, at once.

        A limit holds at the p-th percentile where p % of the requests meet it.
        """
        shares: dict[str, float] = {}
        if self.percentile is not None:
            shares = dict.fromkeys(self.limits(), self.percentile / 100.0)
        if self.goodput_fraction is not None:
            shares[EVERY_LIMIT] = self.goodput_fraction
        elif self.percentile is None:
            shares[EVERY_LIMIT] = USUAL_GOODPUT_FRACTION
        return shares


class Scenario(Frozen):
    """Everything that one simulation needs beside the profile's numbers."""

    schema_version: Literal[1] = 1
    name: str = Field("unnamed", min_length=1, max_length=120)
    profile: str = Field(description="a bundled profile's name, or a folder")
    target: str | None = Field(None, description="refuse a profile of another target model")
    contract: Contract
    sampling: Sampling = Sampling()
    workload: Workload
    deployment: Deployment = Deployment()
    speculation: Speculation = Speculation()
    slo: SLO = SLO()
    warmup_fraction: float = Field(
        0.1, ge=0.0, lt=1.0, description="first requests that no metric counts"
    )
    allow_mismatch: bool = Field(
        False, description="go on where the profile was measured under something else; shown"
    )
    seed: int = Field(0, ge=0, lt=2**63, description="of every random stream")

    @model_validator(mode="after")
    def _check_contract(self) -> Self:
        greedy = self.sampling.temperature == 0.0
        if greedy != (self.contract is Contract.GREEDY_EQUALITY):
            raise ValueError(
                f"contract {self.contract.value!r} with temperature {self.sampling.temperature}; "
                "expected greedy_equality at temperature 0 and exact_sampling above"
            )
        return self

    def with_(self, **changes: Any) -> "Scenario":
        """A validated copy; keys may be dotted: `with_(**{"workload.num_requests": 10})`."""
        raw = self.model_dump(mode="json")
        if "deployment.preset" in changes:  # limits that were the old preset's become the new one's
            for name, value in default_limits(self.deployment.preset).items():
                if raw["deployment"][name] == value:
                    del raw["deployment"][name]
        for dotted, value in changes.items():
            *path, last = dotted.split(".")
            section = raw
            for part in path:
                section = section[part]
            section[last] = value
        return parse_scenario(raw, "the changed scenario")


def parse_scenario(raw: object, origin: str) -> Scenario:
    """Validate; ScenarioError in one sentence where it fails."""
    if not isinstance(raw, dict):
        got = "an empty file" if raw is None else f"one {type(raw).__name__}"
        raise ScenarioError(f"{origin}: got {got}; expected a mapping of sections, as workload")
    try:
        return Scenario.model_validate(raw)
    except ValidationError as error:
        raise ScenarioError(f"{origin}: {describe_validation_error(error)}") from None


class _PlainYaml(yaml.SafeLoader):
    """Safe YAML in which a key given twice is an error, not the last one's win, and aliases of
    aliases cannot grow a few lines into more than any memory holds."""

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None and _num_values(node, {}) > MAX_YAML_VALUES:
            raise yaml.YAMLError(f"its aliases stand for more than {MAX_YAML_VALUES:,} values")
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if (name := str(key.value)) in seen:
                raise yaml.YAMLError(f"key {name!r} is given twice{node.start_mark}")
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


def _num_values(node: yaml.Node, known: dict[int, int]) -> int:
    """Written out, every alias in full; an alias of what it stands in is refused as too deep."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        parts = [part for entry in node.value for part in _parts(entry)]
        known[id(node)] = 1 + sum(_num_values(part, known) for part in parts)
    return known[id(node)]


def _parts(entry: yaml.Node | tuple[yaml.Node, yaml.Node]) -> tuple[yaml.Node, ...]:
    """Of a sequence one node, of a mapping key and value."""
    return entry if isinstance(entry, tuple) else (entry,)


def read_yaml(path: Path, expected: str) -> object:
    """The content of a YAML (or JSON) file. Raises ScenarioError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _cannot_read(str(path), error, expected) from None
    return _parse_yaml(text, str(path), expected)


def _parse_yaml(text: str, origin: str, expected: str) -> object:
    try:
        found: object = yaml.load(text, Loader=_PlainYaml)
    except (yaml.YAMLError, RecursionError) as error:
        raise _cannot_read(origin, error, expected) from None
    return found


def _cannot_read(origin: str, error: Exception, expected: str) -> ScenarioError:
    return ScenarioError(
        f"cannot read {origin}: {' '.join(str(error).split())}; expected {expected} in YAML"
    )


def load_scenario(path: Path) -> Scenario:
    """Read a scenario from YAML (or JSON, which is YAML). Raises ScenarioError.

    A profile folder or a recorded file given relative to the scenario's own folder is made
    absolute, so that the scenario means the same wherever it is written again.
    """
    return with_absolute_paths(
        parse_scenario(read_yaml(path, "a scenario"), str(path)), path.parent
    )


def with_absolute_paths(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with the paths that it gives relative to `folder` made absolute."""
    changes = _data_paths(scenario, folder)
    if (folder / scenario.profile).exists():
        changes["profile"] = _absolute(scenario.profile, folder)
    return scenario.with_(**changes) if changes else scenario


def read_scenario(text: str, origin: str) -> Scenario:
    """A scenario from YAML (or JSON) text, its paths as they stand. Raises ScenarioError."""
    return parse_scenario(_parse_yaml(text, origin, "a scenario"), origin)


def _data_paths(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """The workload's files as absolute paths, by dotted key."""
    changes: dict[str, Any] = {}
    for dotted in DATA_PATHS:
        found: Any = scenario.workload
        for part in dotted.split("."):
            found = getattr(found, part, None)
        if found is not None:
            changes[f"workload.{dotted}"] = _absolute(found, folder)
    return changes


def _absolute(path: str, folder: Path) -> str:
    return path if Path(path).is_absolute() else str((folder / path).resolve())


class _ExactText(yaml.SafeDumper):
    """Safe YAML that loses no line break: only double quotes keep these as they are."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if UNUSUAL_BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_ExactText.add_representer(str, _represent_text)


def dump_scenario(scenario: Scenario) -> str:
    """The scenario as YAML that `load_scenario` reads back equal."""
    raw = scenario.model_dump(mode="json")
    return yaml.dump(raw, Dumper=_ExactText, sort_keys=False, allow_unicode=True)
