"""Sessions: a user asks again after an answer."""

from typing import Literal, Self

from pydantic import Field, model_validator

from simcore.profile.schema import Frozen


class ThinkTime(Frozen):
    """From an answer's last token to the next question: gamma-distributed seconds."""

    mean_s: float = Field(0.0, ge=0.0, le=1e9)
    cv: float = Field(
        1.0, ge=0.0, le=100.0, description="standard deviation / mean; 1: exponential"
    )


class Sessions(Frozen):
    """Turns of one conversation; arrivals then start sessions, `num_requests` counts turns."""

    mean_turns: float = Field(ge=1.0, le=10_000.0, description="requests of a session")
    max_turns: int = Field(100, ge=1, le=10_000, description="requests; longer ones are cut")
    turns: Literal["geometric", "fixed"] = Field(
        "geometric", description="fixed: every session has mean_turns, a whole number"
    )
    think: ThinkTime = ThinkTime(mean_s=10.0)
    keeps_history: bool = Field(
        True, description="a prompt holds all earlier prompts and answers of its session"
    )

    @model_validator(mode="after")
    def _check_turns(self) -> Self:
        if self.mean_turns > self.max_turns:
            raise ValueError(
                f"mean_turns {self.mean_turns} exceeds max_turns {self.max_turns}; raise it"
            )
        if self.turns == "fixed" and self.mean_turns != int(self.mean_turns):
            raise ValueError(f"mean_turns {self.mean_turns}; expected a whole number when fixed")
        return self
