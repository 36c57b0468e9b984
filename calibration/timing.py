"""Clocks of the phases of a step, and what is kept of repeated measurements."""

import time
from dataclasses import dataclass

import numpy as np
import torch

OVERHEAD = "overhead"


class Stopwatch:
    """Splits one step into named phases; what no phase covers is overhead.

    On CUDA every lap waits for the device, so that a phase owns the work that it launched.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._phase_s: dict[str, float] = {}
        self._start_s = self._lap_s = self._now_s()

    def lap(self, phase: str) -> None:
        """End `phase`, or one more part of it, which began where the last one ended."""
        now_s = self._now_s()
        self._phase_s[phase] = self._phase_s.get(phase, 0.0) + now_s - self._lap_s
        self._lap_s = now_s

    def skip(self) -> None:
        """What has passed since the last lap is no phase's."""
        self._lap_s = self._now_s()

    def stop(self) -> dict[str, float]:
        """Seconds of every phase, the rest as overhead."""
        total_s = self._now_s() - self._start_s
        covered_s = sum(self._phase_s.values())
        return {**self._phase_s, OVERHEAD: max(0.0, total_s - covered_s)}

    def _now_s(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()


@dataclass(frozen=True)
class Spread:
    """Order statistics of repeated timings of one cell, in seconds."""

    median_s: float
    p10_s: float
    p90_s: float
    min_s: float
    repeats: int


def spread(samples_s: list[float]) -> Spread:
    """Summarise `samples_s`; raises ValueError if there are none."""
    if not samples_s:
        raise ValueError("got no timings; expected at least one")
    p10, median, p90 = np.quantile(samples_s, [0.1, 0.5, 0.9])
    return Spread(float(median), float(p10), float(p90), min(samples_s), len(samples_s))
