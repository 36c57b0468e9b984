"""What one service does better or worse than another under the same seeds, in words."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from simcore.metrics.estimate import Estimate, estimate
from simcore.metrics.headlines import HEADLINES, Headline
from simcore.planner.comparison import Difference, RelativeChange

Verdict = Literal["lower", "higher", "same", "indistinguishable", "unknown"]
Pair = tuple[float, float]  # reference, this


def differences(
    reference: Mapping[str, Estimate], this: Mapping[str, Estimate]
) -> tuple[Difference, ...]:
    """Every headline number that both services gave under at least one common seed.

    The two estimates list the same seeds in the same order. Pairing takes out what the seeds have
    in common, arrivals and lengths above all.
    """
    found = []
    for headline in HEADLINES:
        one, other = reference[headline.metric].values, this[headline.metric].values
        pairs = [
            None if a is None or b is None else (a, b) for a, b in zip(one, other, strict=True)
        ]
        if any(pair is not None for pair in pairs):
            found.append(_difference(headline, pairs))
    return tuple(found)


def _difference(headline: Headline, pairs: Sequence[Pair | None]) -> Difference:
    absolute = estimate([None if pair is None else pair[1] - pair[0] for pair in pairs])
    relative = None if headline.unit == "share" else _relative(pairs)
    verdict = _verdict(absolute, relative)
    return Difference(
        metric=headline.metric,
        name=headline.name,
        unit=headline.unit,
        absolute=absolute,
        relative=relative,
        verdict=verdict,
        sentence=_sentence(headline, verdict, absolute, relative),
    )


def _relative(pairs: Sequence[Pair | None]) -> RelativeChange | None:
    """Ratios are averaged as logarithms: a half and a double cancel, and no end is negative."""
    seen = np.array([pair for pair in pairs if pair is not None])
    if (seen <= 0.0).any():
        return None
    logs = estimate(np.log(seen[:, 1] / seen[:, 0]).tolist())
    assert logs.mean is not None
    return RelativeChange(
        mean=float(np.expm1(logs.mean)),
        low=None if logs.low is None else float(np.expm1(logs.low)),
        high=None if logs.high is None else float(np.expm1(logs.high)),
    )


def _verdict(absolute: Estimate, relative: RelativeChange | None) -> Verdict:
    """By the interval that the sentence shows."""
    if not any(absolute.values):  # zero or not observed, under every seed
        return "same"
    shown = relative or absolute
    if shown.low is None or shown.high is None:
        return "unknown"
    if shown.low > 0.0:
        return "higher"
    return "lower" if shown.high < 0.0 else "indistinguishable"


def _sentence(
    headline: Headline, verdict: Verdict, absolute: Estimate, relative: RelativeChange | None
) -> str:
    if verdict == "same":
        return f"same {headline.name} under every seed"
    shown, scale, unit = (relative, 100.0, " %") if relative else (absolute, 1.0, "")
    if headline.unit == "share":
        scale, unit = 100.0, " percentage points"
    elif relative is None and headline.unit:
        unit = f" {headline.unit}"
    assert shown.mean is not None
    mean = scale * shown.mean
    if shown.low is None or shown.high is None:
        return f"{headline.name} {_signed(mean)}{unit}, under one seed: no interval"
    low, high = scale * shown.low, scale * shown.high
    if verdict == "indistinguishable":
        spread = f"({_signed(low)} to {_signed(high)})"
        return f"indistinguishable {headline.name}: {_signed(mean)}{unit} {spread}"
    least, most = sorted((abs(low), abs(high)))
    spread = f"({_digits(least)} to {_digits(most)})"
    return f"{verdict} {headline.name} by {_digits(abs(mean))}{unit} {spread}"


def _digits(value: float) -> str:
    return f"{value:#.3g}".removesuffix(".")


def _signed(value: float) -> str:
    return f"{value:+#.3g}".removesuffix(".")
