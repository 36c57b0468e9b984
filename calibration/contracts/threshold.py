"""Threshold acceptance as SGLang's: relaxed below 1, exact at 1.

`--speculative-accept-threshold-single` accepts any draft that is at least so likely, and
`--speculative-accept-threshold-acc` divides the probability of the siblings tried so far. With both
at 1 the rule is `top_k`.
"""

from dataclasses import dataclass

import torch

from calibration.contracts.candidates import Candidates, Verdict
from calibration.contracts.contract import VerificationContract
from calibration.contracts.descent import descend, point_attempt
from calibration.contracts.luck import Luck
from calibration.errors import CalibrationError


@dataclass(frozen=True)
class ThresholdAcceptance(VerificationContract):
    """Sibling by sibling from the root down; what p says is stretched."""

    single: float = 0.5
    accumulated: float = 1.0
    name: str = "threshold_acceptance"

    def __post_init__(self) -> None:
        if not (0.0 < self.single <= 1.0 and 0.0 < self.accumulated <= 1.0):
            raise CalibrationError(
                f"threshold acceptance with single = {self.single}, accumulated = "
                f"{self.accumulated}; expected both in (0, 1]"
            )

    def verify_one(self, p: torch.Tensor, candidates: Candidates, luck: Luck) -> Verdict:
        """Go down while a child passes; else the next token is drawn from p without the tried."""

        def passes(p_token: float, mass_before: float) -> bool:
            if p_token >= self.single:
                return True
            # One coin a node against the siblings' mass so far: here what is left of its chance.
            before = min(1.0, mass_before / self.accumulated)
            after = min(1.0, (mass_before + p_token) / self.accumulated)
            return before >= 1.0 or luck.accepts((after - before) / (1.0 - before))

        attempt = point_attempt(p, candidates, passes)
        return descend(p, candidates, luck, attempt, is_exact=False)
