"""What a sweep varies: a base scenario, and values for some of its fields.

Read from YAML (`load_sweep`) or built in Python; docs/reference/sweeps.md defines every field.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from simcore.errors import ScenarioError
from simcore.planner.run_table import OBJECTIVES
from simcore.profile.schema import Frozen
from simcore.scenario import DATA_PATHS, Scenario, parse_scenario, read_yaml, with_absolute_paths
from simcore.scenario_files import bundled_scenarios, open_scenario
from simcore.validation import describe_validation_error

LOAD = "load_rate_per_s"  # axis: mean offered requests a second, whatever kind of arrivals
TREE = "tree"  # axis: draft trees
SEED = "seed"  # counted by `seeds`, never an axis
MAX_CONFIGURATIONS = 100_000
PATHS = ("profile", *(f"workload.{path}" for path in DATA_PATHS))


class Span(Frozen):
    """Evenly spaced values, both ends included; whole numbers where the steps are whole."""

    start: float = Field(alias="from")
    to: float
    num: int = Field(ge=2, le=10_000)
    scale: Literal["linear", "log"] = Field("linear", description="log: equal ratios")

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        if self.to <= self.start or (self.scale == "log" and self.start <= 0.0):
            raise ValueError(
                f"from {self.start:g} to {self.to:g}; expected rising ends, above 0 on a log scale"
            )
        return self

    def values(self) -> tuple[float | int, ...]:
        """The values, ascending."""
        space = np.geomspace if self.scale == "log" else np.linspace
        found = [float(each) for each in space(self.start, self.to, self.num)]
        return tuple(map(int, found) if all(each == int(each) for each in found) else found)


class TreeChoice(Frozen):
    """A draft tree that follows from the recordings: of this size, or the best for the load."""

    nodes: int = Field(ge=1, le=512, description="most candidates, the root not counted")
    depth: int = Field(ge=1, le=64, description="most levels, the root not counted")
    optimal: bool = Field(
        False,
        description="of the size up to `nodes` that emits fastest at this load's expected batch; "
        "otherwise of exactly this budget",
    )

    def __str__(self) -> str:
        kind = "optimal up to" if self.optimal else "best of"
        return f"{kind} {self.nodes} nodes, {self.depth} deep"


def _axis_spelling(value: object) -> str:
    return "span" if isinstance(value, Mapping | Span) else "values"


Axis = Annotated[
    Annotated[tuple[Any, ...], Field(min_length=1), Tag("values")] | Annotated[Span, Tag("span")],
    Discriminator(_axis_spelling),
]


class SweepSpace(Frozen):
    """A sweep: what is varied, how it is searched, what is best."""

    schema_version: Literal[1] = 1
    scenario: Scenario = Field(description="base: a name, a file, or a whole scenario")
    axes: dict[str, Axis] = Field(
        min_length=1,
        description="dotted field of the scenario, `load_rate_per_s` or `tree` -> values",
    )
    method: Literal["grid", "adaptive"] = Field(
        "grid", description="adaptive: estimate first, then race"
    )
    seeds: int = Field(3, ge=1, le=1000, description="runs of each; adaptive: the most")
    first_seeds: int = Field(3, ge=2, le=1000, description="adaptive: runs in the first round")
    objective: str = Field("e2e_mean_s", description="column of the table that tells the best")
    estimate_margin: float = Field(
        2.0,
        gt=1.0,
        le=1000.0,
        description="adaptive: left out where the estimate is so many times worse than the best's",
    )

    @model_validator(mode="after")
    def _check_objective(self) -> Self:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective {self.objective!r}; expected one of {list(OBJECTIVES)}")
        return self

    @model_validator(mode="after")
    def _check_seed(self) -> Self:
        if SEED in self.axes:
            raise ValueError(
                "the seed is no axis: every configuration runs under the scenario's seed and the "
                "next ones; give their number as seeds"
            )
        return self

    @model_validator(mode="after")
    def _check_trees(self) -> Self:
        for value in self.values(TREE) if TREE in self.axes else ():
            if isinstance(value, Mapping):
                TreeChoice.model_validate(value)
            elif not isinstance(value, str | TreeChoice):
                raise ValueError(
                    f"tree {value!r}; expected 'chain', a tree as text (4x3) or nodes and depth"
                )
        return self

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        count = int(np.prod([len(self.values(name)) for name in self.axes], dtype=float))
        if count > MAX_CONFIGURATIONS:
            raise ValueError(
                f"{count:,} combinations; expected at most {MAX_CONFIGURATIONS:,}: give fewer "
                "values"
            )
        return self

    def values(self, name: str) -> tuple[Any, ...]:
        """The values of one axis."""
        axis = self.axes[name]
        return axis.values() if isinstance(axis, Span) else axis


def parse_sweep(raw: object, origin: str, folder: Path = Path()) -> SweepSpace:
    """Validate; relative paths are of `folder`. ScenarioError in one sentence where it fails."""
    if not isinstance(raw, dict):
        raise ScenarioError(f"{origin}: got {type(raw).__name__}; expected scenario and axes")
    if "scenario" in raw:
        raw = raw | {"scenario": _base(raw["scenario"], origin, folder)}
    if isinstance(raw.get("axes"), dict):
        raw = raw | {"axes": {k: _of_folder(k, v, folder) for k, v in raw["axes"].items()}}
    try:
        return SweepSpace.model_validate(raw)
    except ValidationError as error:
        raise ScenarioError(f"{origin}: {describe_validation_error(error)}") from None


def _base(asked: object, origin: str, folder: Path) -> Scenario:
    if isinstance(asked, Scenario):
        return asked
    if isinstance(asked, str):
        return open_scenario(asked if asked in bundled_scenarios() else str(folder / asked))
    return with_absolute_paths(parse_scenario(asked, f"{origin}: scenario"), folder)


def _of_folder(name: str, values: object, folder: Path) -> object:
    """Profiles and recorded files that an axis names relative to the sweep's own folder."""
    if name not in PATHS or not isinstance(values, list | tuple):
        return values
    return [
        str((folder / each).resolve())
        if isinstance(each, str) and (folder / each).exists()
        else each
        for each in values
    ]


def load_sweep(path: Path) -> SweepSpace:
    """Read a sweep from YAML. Raises ScenarioError."""
    return parse_sweep(read_yaml(path, "a sweep"), str(path), path.parent)
