"""Sums over the steps of a run: what its accounts need, whether the steps are kept or not."""

from dataclasses import dataclass, fields

import numpy as np

from simcore.records import Records


@dataclass(frozen=True)
class StepTotals:
    """Sums over every step of every replica."""

    num_steps: int = 0
    propose_s: float = 0.0
    target_s: float = 0.0
    reconcile_s: float = 0.0
    overhead_s: float = 0.0
    busy_s: float = 0.0
    decoding_s: float = 0.0  # decoding requests times the step's length
    num_decoding: int = 0
    context_tokens: int = 0
    prefill_tokens: int = 0
    padded_tokens: int = 0
    num_extrapolated: int = 0
    num_aborted: int = 0

    def with_steps(self, steps: Records) -> "StepTotals":
        """These sums and those of further steps."""
        spans_s = steps["end_s"] - steps["begin_s"]
        aborted = steps["is_aborted"] != 0  # took time and did nothing
        whole = steps[~aborted] if aborted.any() else steps
        more = StepTotals(
            num_steps=len(steps),
            **{
                name: float(steps[name].sum())
                for name in ("propose_s", "target_s", "reconcile_s", "overhead_s")
            },
            busy_s=float(spans_s.sum()),
            decoding_s=float((spans_s * steps["num_decoding"]).sum()),
            num_decoding=_count(whole["num_decoding"]),
            context_tokens=_count(whole["context_tokens"]),
            prefill_tokens=_count(whole["prefill_tokens"]),
            padded_tokens=_count(whole["padded_tokens"]),
            num_extrapolated=_count(steps["is_extrapolated"]),
            num_aborted=len(steps) - len(whole),
        )
        return StepTotals(
            **{
                field.name: getattr(self, field.name) + getattr(more, field.name)
                for field in fields(self)
            }
        )


def _count(values: "np.ndarray") -> int:
    return int(values.sum(dtype=np.int64))
