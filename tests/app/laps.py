"""Laps of the page benchmark: their spread, the goals, and the figures in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

GOALS_S = {"first_picture": 3.0, "slider": 0.2, "simulation": 2.0}

Spread = dict[str, float]  # median_s, p95_s, laps


def spread(seconds: Sequence[float]) -> Spread:
    """Median and 95th percentile of laps."""
    return {
        "median_s": round(float(np.median(seconds)), 4),
        "p95_s": round(float(np.percentile(seconds, 95)), 4),
        "laps": len(seconds),
    }


def missed(found: dict[str, Any]) -> list[str]:
    """What takes longer than its goal in the median, a line each."""
    lines = [
        _miss("first picture, new visitor", found["start"]["first_picture"], "first_picture"),
        _miss("simulation", found["simulation"]["result"], "simulation"),
        _miss("slider beside a simulation", found["simulation"]["other_tab"], "slider"),
    ]
    for page, sliders in found["sliders"].items():
        for label, laps in sliders.items():
            if laps["all_pictures"] is not None:
                lines.append(_miss(f"{page}, {label}", laps["all_pictures"], "slider"))
    return [each for each in lines if each]


def _miss(name: str, laps: Spread, goal: str) -> str:
    if laps["median_s"] <= GOALS_S[goal]:
        return ""
    return f"{name}: {_text(laps)}, goal {GOALS_S[goal]:g} s"


def _text(laps: Spread | None) -> str:
    if laps is None:
        return "no picture changes"
    return f"{laps['median_s'] * 1e3:,.0f} ms (p95 {laps['p95_s'] * 1e3:,.0f}, {laps['laps']} laps)"


def bench_text(found: dict[str, Any]) -> str:
    """The figures in lines, and what misses its goal."""
    start, simulation = found["start"], found["simulation"]
    lines = [f"{name.replace('_', ' ')}: {_text(laps)}" for name, laps in start.items()]
    for page, sliders in found["sliders"].items():
        for label, laps in sliders.items():
            lines.append(
                f"{page}, {label}: picture {_text(laps['all_pictures'])}; page "
                f"{_text(laps['page'])}"
            )
    for profile, pages in found["reruns"].items():
        for page, sliders in pages.items():
            if not sliders:
                continue
            label, laps = max(sliders.items(), key=lambda each: each[1]["median_s"])
            lines.append(f"rerun {profile}, {page}: at most {_text(laps)}, {label}")
    lines += [
        f"simulation, {name.replace('_', ' ')}: {_text(laps)}" for name, laps in simulation.items()
    ]
    misses = missed(found)
    lines += ["every goal is met"] if not misses else ["misses its goal:", *misses]
    return "\n".join(lines)


def next_direction(at: float, low: float, high: float, direction: int) -> int:
    """On until the end of the scale, then back."""
    if at >= high:
        return -1
    return 1 if at <= low else direction
