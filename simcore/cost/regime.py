"""How a step runs on the GPU: as one captured graph, in captured pieces, or eager.

A captured step is padded to the next captured size; the largest size is a cliff (Capture).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcore.by_pointer import by_pointer
from simcore.compiled import compiled, compiled_entry
from simcore.cost.law import Capture, CostLaw, Regime
from simcore.cost.shape import StepShape
from simcore.errors import ScenarioError

FULL, PIECEWISE, EAGER = range(3)
PREFILL = {"full": FULL, "piecewise": PIECEWISE, "eager": EAGER}


@by_pointer
class RegimeTables(NamedTuple):
    """Captured sizes and the regimes beyond full graphs as plain numbers."""

    sizes: NDArray[np.float64]  # ascending; empty: nothing is padded, no regime differs
    on_requests: bool
    full_until: float
    prefill: int
    is_eager_measured: bool
    piecewise_floor_s: float
    piecewise_extra_s: float
    eager_floor_s: float
    eager_extra_s: float


def regime_tables(capture: Capture | None) -> RegimeTables:
    """The numbers of a law's captured sizes."""
    if capture is None:
        return RegimeTables(np.zeros(0), False, 0.0, FULL, True, 0.0, 0.0, 0.0, 0.0)
    full_until = capture.sizes[-1] if capture.full_until is None else capture.full_until
    piecewise, eager = capture.piecewise or Regime(), capture.eager or Regime()
    return RegimeTables(
        sizes=np.array(capture.sizes, dtype=np.float64),
        on_requests=capture.captured_on == "requests",
        full_until=float(full_until),
        prefill=PREFILL[capture.prefill],
        is_eager_measured=capture.eager is not None,
        piecewise_floor_s=piecewise.floor_s,
        piecewise_extra_s=piecewise.extra_s,
        eager_floor_s=eager.floor_s,
        eager_extra_s=eager.extra_s,
    )


def check_regimes(law: CostLaw, *, max_num_seqs: int, max_num_batched_tokens: int) -> None:
    """Raise ScenarioError where steps may run eager but no eager step was measured.

    Inside one regime cost may be extrapolated; across a cliff it is refused (DESIGN section 4).
    """
    capture = law.capture
    if capture is None or capture.eager is not None:
        return
    last = capture.sizes[-1]
    name, largest = "max_num_batched_tokens", max_num_batched_tokens
    if capture.captured_on == "requests":
        name, largest = "max_num_seqs", max_num_seqs
    if largest > last:
        raise ScenarioError(
            f"{name} {largest} lets steps grow past the last captured size, {last}, where they run "
            f"eager; the profile measured no eager step: lower {name} to {last}, or measure some"
        )
    if capture.prefill == "eager":
        raise ScenarioError(
            "prefill runs eager in this engine, and the profile measured no eager step; measure "
            "some (capture.eager of the cost law)"
        )


@compiled
def graph_of(regimes: RegimeTables, shape: StepShape) -> tuple[float, int]:
    """(query tokens that the target pass computes, regime) of one step."""
    tokens = shape.query_tokens
    if len(regimes.sizes) == 0:
        return tokens, FULL
    size = shape.num_requests if regimes.on_requests else tokens
    prefill = regimes.prefill if shape.prefill_tokens > 0.0 else FULL
    if size > regimes.sizes[-1] or prefill == EAGER:
        return tokens, EAGER
    padded = regimes.sizes[np.searchsorted(regimes.sizes, size)]
    regime = max(prefill, PIECEWISE if padded > regimes.full_until else FULL)
    if regimes.on_requests:
        # The graph has one shape: every request at the step's widest, 1 + γ, or a tree's 1 + m.
        padded *= max(1.0 + shape.gamma, tokens / shape.num_requests)
    return float(padded), regime


@compiled_entry
def regime_of(regimes: RegimeTables, shape: StepShape) -> int:
    """The regime alone, for callers in Python."""
    return graph_of(regimes, shape)[1]


@compiled
def pass_in_regime(regimes: RegimeTables, regime: int, gpu_s: float) -> float:
    """Seconds of a target pass whose GPU work lasts `gpu_s` in a full graph."""
    if regime == FULL:
        return gpu_s
    if regime == PIECEWISE:
        return max(regimes.piecewise_floor_s, gpu_s + regimes.piecewise_extra_s)
    return max(regimes.eager_floor_s, gpu_s + regimes.eager_extra_s)
