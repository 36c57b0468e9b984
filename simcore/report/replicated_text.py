"""Several seeds of one scenario as plain text for a terminal."""

from simcore.metrics.estimate import Estimate
from simcore.metrics.headlines import HEADLINES, Headline
from simcore.metrics.replicated import ReplicatedSummary
from simcore.report.metric_words import written
from simcore.report.units import NOTHING


def replicated_text(found: ReplicatedSummary) -> str:
    """Every headline number with its mean and interval; what was never observed is left out."""
    lines = [
        replicated_basis(found),
        *(
            f"{name:22} {mean:>18}   {spread}"
            for name, mean, spread in (replicated_header(found), *replicated_rows(found))
        ),
        *replicated_notes(found),
    ]
    return "\n".join(lines)


def replicated_basis(found: ReplicatedSummary) -> str:
    """Where the numbers come from."""
    origin, seeds = found.origin, found.seeds
    return (
        f"Scenario {origin['scenario']}, profile {origin['profile']} ({origin['profile_source']}), "
        f"contract {origin['contract']}, acceptance {origin['acceptance_model']}, seeds "
        f"{seeds[0]} to {seeds[-1]}, specplan {origin['specplan_version']}"
    )


def replicated_header(found: ReplicatedSummary) -> tuple[str, str, str]:
    """The columns of `replicated_rows`."""
    return "", f"mean of {len(found.seeds)} seeds", f"{100 * found.confidence:g} % interval"


def replicated_rows(found: ReplicatedSummary) -> list[tuple[str, str, str]]:
    """Name, mean and interval of every headline number that any seed observed."""
    metrics = found.metrics
    return [
        _row(each, metrics[each.metric])
        for each in HEADLINES
        if metrics[each.metric].mean is not None
    ]


def replicated_notes(found: ReplicatedSummary) -> list[str]:
    """Saturation where it came about, and what the intervals hold."""
    lines = []
    saturated = found.metrics["is_saturated"].values.count(1.0)
    if saturated:
        lines.append(
            f"Saturated under {saturated} of {len(found.seeds)} seeds: more came than could be "
            "served; the queue was full or kept growing."
        )
    lines.append("The intervals hold what differs between seeds, not the profile's own error.")
    return lines


def _row(headline: Headline, found: Estimate) -> tuple[str, str, str]:
    spread = NOTHING
    if found.low is not None and found.high is not None:
        spread = f"{written(headline, found.low)} to {written(headline, found.high)}"
    return headline.name, written(headline, found.mean), spread
