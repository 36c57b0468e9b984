"""What a sensitivity says: which input, moved by how much, flips the decision."""

from typing import Any, Literal

from pydantic import Field

from simcore.profile.schema import Frozen

Grows = Literal["off", "on", "both"]


class End(Frozen):
    """The gain with one input at one end of its range."""

    value: float = Field(description="of the input, in its unit")
    speedup: float | None = Field(description="times; mean E2E off / on; null: none there")
    grows: Grows | None = Field(None, description="whose queue grows for ever there")
    reason: str = Field("", description="why there is no speed-up")


class Flip(Frozen):
    """Where the decision turns, nearest to where the scenario stands."""

    value: float = Field(description="of the input, in its unit; by the closed form")
    is_within_range: bool = Field(description="false: further off than is plausible")
    simulated_speedup: float | None = Field(
        description="times, there, over some seeds; null: not simulated"
    )
    simulated_interval: tuple[float, float] | None = Field(description="times; 95 %, likewise")
    is_confirmed: bool | None = Field(
        description="the simulated interval, or the closed form's measured error around 1, holds "
        "the simulated speed-up; null: not simulated"
    )
    reason: str = Field("", description="why not simulated, or how far off")


class InputEffect(Frozen):
    """One input moved over its range, everything else held."""

    name: str
    unit: str
    base: float = Field(description="where the scenario stands, in `unit`")
    low: End
    high: End
    range_reason: str = Field(description="why this range")
    swing: float | None = Field(
        description="|log of the speed-ups' ratio| between the ends; null: one end has none"
    )
    searched: tuple[float, float] = Field(
        description="in `unit`; where a flip was looked for, as far as there are gains"
    )
    flip: Flip | None = Field(description="null: no flip within what was searched")


class Sensitivity(Frozen):
    """The gain of one draft length over off, and what moves it; the strongest input first."""

    origin: dict[str, Any]
    proposer: str
    num_speculative_tokens: int
    base: End = Field(description="the scenario itself; its value is 0")
    decision: Literal["speculate", "off"]
    effects: tuple[InputEffect, ...]
    left_out: dict[str, str] = Field(description="input -> why it was not moved")
    notes: tuple[str, ...]
