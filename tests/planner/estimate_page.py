"""The table of docs/background/estimate.md."""

from pathlib import Path

from simcore.planner.load.accuracy import METRICS, REGIMES, Accuracy, RelativeError

PAGE = Path(__file__).parents[2] / "docs" / "background" / "estimate.md"
BEGIN, END = "<!-- accuracy: begin -->\n", "<!-- accuracy: end -->\n"
NAMES = {
    "roomy": "stable, memory ample",
    "kv_tight": "stable, memory limits the batch",
    "near_saturation": "80 % of the bound and more",
}


def render(accuracy: Accuracy) -> str:
    """The table in Markdown, and where it comes from."""
    count = sum(accuracy.regimes[regime].num_points for regime in REGIMES)
    lines = [
        f"Made on {accuracy.date} with `{accuracy.command}`, specplan {accuracy.specplan_version}, "
        f"seed {accuracy.seed}: {count} scenarios of {accuracy.num_requests:,} requests each. "
        "Median and 90th percentile of |estimated / simulated − 1|:",
        "",
        "| regime | scenarios | " + " | ".join(METRICS) + " |",
        "|---|---:|" + "---:|" * len(METRICS),
    ]
    for regime in REGIMES:
        found = accuracy.regimes[regime]
        cells = [_cell(getattr(found, metric)) for metric in METRICS]
        lines.append(f"| {NAMES[regime]} | {found.num_points} | " + " | ".join(cells) + " |")
    return "".join(line + "\n" for line in lines)


def replace_table(page: str, table: str) -> str:
    """The page with its generated part made anew."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + table + END + after


def _cell(error: RelativeError) -> str:
    return " / ".join(
        "none" if value is None else f"{100 * value:.1f} %"
        for value in (error.median_rel, error.p90_rel)
    )
