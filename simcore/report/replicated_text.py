"""Several seeds of one scenario as plain text for a terminal."""

from simcore.metrics.estimate import Estimate
from simcore.metrics.headlines import HEADLINES, Headline
from simcore.metrics.replicated import ReplicatedSummary
from simcore.report.metric_words import written
from simcore.report.units import NOTHING


def replicated_text(found: ReplicatedSummary) -> str:
    """Every headline number with its mean and interval; what was never observed is left out."""
    origin, seeds, metrics = found.origin, found.seeds, found.metrics
    shown = [each for each in HEADLINES if metrics[each.metric].mean is not None]
    lines = [
        f"Scenario {origin['scenario']}, profile {origin['profile']} ({origin['profile_source']}), "
        f"contract {origin['contract']}, acceptance {origin['acceptance_model']}, seeds "
        f"{seeds[0]} to {seeds[-1]}, specplan {origin['specplan_version']}",
        f"{'':22} {f'mean of {len(seeds)} seeds':>18}   {100 * found.confidence:g} % interval",
        *(_line(each, metrics[each.metric]) for each in shown),
    ]
    saturated = metrics["is_saturated"].values.count(1.0)
    if saturated:
        lines.append(
            f"Saturated under {saturated} of {len(seeds)} seeds: more came than could be "
            "served; the queue was full or kept growing."
        )
    lines.append("The intervals hold what differs between seeds, not the profile's own error.")
    return "\n".join(lines)


def _line(headline: Headline, found: Estimate) -> str:
    spread = NOTHING
    if found.low is not None and found.high is not None:
        spread = f"{written(headline, found.low)} to {written(headline, found.high)}"
    return f"{headline.name:22} {written(headline, found.mean):>18}   {spread}"
