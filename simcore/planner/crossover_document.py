"""A crossover map as a document: axes, cells, and the line where speculation breaks even."""

from typing import Any, Literal

from pydantic import Field

from simcore.profile.schema import Frozen

MapKind = Literal["load_gamma", "batch_acceptance", "context_gamma", "budget_load"]
Metric = Literal["e2e", "tpot"]
State = Literal["measured", "extrapolated", "unstable", "refused"]

MAP_KINDS: tuple[MapKind, ...] = ("load_gamma", "batch_acceptance", "context_gamma", "budget_load")


class Axis(Frozen):
    """One side of a map."""

    name: str
    unit: str
    values: tuple[float, ...] = Field(description="ascending")
    own: float | None = Field(description="where the scenario itself stands; null: nowhere on it")


class Cell(Frozen):
    """Off against on at one point of the map."""

    speedup: float | None = Field(description="seconds off / on; null: refused or unstable")
    state: State = Field(
        description="measured: the mean decode steps of off and on lie in the box that the cost "
        "law was fitted in; extrapolated: one lies outside; unstable: a queue grows for ever; "
        "refused: there is no answer"
    )
    reason: str = Field("", description="why, unless measured")
    grows: Literal["off", "on", "both"] | None = Field(
        None, description="whose queue grows for ever, where unstable"
    )
    off_s: float | None = None
    on_s: float | None = None
    emitted_tokens_per_cycle: float | None = None
    off_batch_size: float | None = Field(None, description="running requests of a busy replica")
    on_batch_size: float | None = None


class Crossing(Frozen):
    """A point of the break-even line."""

    x: float
    y: float


class CrossoverMap(Frozen):
    """Speed-up over off on a grid; `cells[row][column]`, rows by y, columns by x."""

    kind: MapKind
    metric: Metric
    is_simulated: bool
    origin: dict[str, Any]
    proposer: str
    x: Axis
    y: Axis
    cells: tuple[tuple[Cell, ...], ...]
    crossed_along: Literal["x", "y"] = Field(
        description="along which axis the line was interpolated: the one that varies smoothly"
    )
    break_even: tuple[Crossing, ...] = Field(
        description="S = 1 between two neighbours, log S linear in the place on the grid; by rows "
        "where crossed along x, by columns along y"
    )
    notes: tuple[str, ...] = Field(description="how the map was made, and what it leaves out")
