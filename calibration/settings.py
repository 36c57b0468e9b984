"""Everything that a measurement is asked for, checked before any model is loaded."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from calibration.distill import DistillSettings
from calibration.errors import CalibrationError
from calibration.grid import Grid
from calibration.randomness import MAX_SEED

NAME_PATTERN = r"[a-z0-9][a-z0-9_.-]*"
PROPOSER_NAMES = ("ngram", "draft_model")


@dataclass(frozen=True)
class MeasureSettings:
    """Everything that a measurement is asked for."""

    output: Path
    name: str
    target: Path | None = None
    draft: Path | None = None
    proposers: tuple[str, ...] = PROPOSER_NAMES
    device: str = "cpu"
    dtype: str = "bfloat16"
    threads: int | None = None
    grid: Grid = field(default_factory=Grid)
    num_rounds: int = 9
    max_tokens: int = 128
    prompts: Path | None = None
    prompts_per_domain: int = 24
    decoded_per_domain: int = 4
    temperatures: tuple[float, ...] = (0.0, 1.0)
    distill: DistillSettings = field(default_factory=DistillSettings)
    seed: int = 0
    resume: bool = True

    def __post_init__(self) -> None:
        unknown = sorted(set(self.proposers) - set(PROPOSER_NAMES))
        if unknown or not self.proposers or len(set(self.proposers)) < len(self.proposers):
            raise CalibrationError(
                f"proposers are {list(self.proposers)}; expected some of {list(PROPOSER_NAMES)}, "
                "each once"
            )
        for name in ("num_rounds", "max_tokens", "decoded_per_domain", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise CalibrationError(f"{name} is {value}; expected at least 1")
        if not re.fullmatch(NAME_PATTERN, self.name):
            raise CalibrationError(
                f"profile name is '{self.name}'; expected lower-case letters, digits and _ . - "
                "after a letter or digit; pass another --name"
            )
        if not 0 <= self.seed <= MAX_SEED:
            raise CalibrationError(f"seed is {self.seed}; expected 0 to 2^63 - 1")
