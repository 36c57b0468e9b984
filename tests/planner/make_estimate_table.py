"""Measure the closed form anew: `python -m tests.planner.make_estimate_table` (minutes).

Writes the figures that the package ships and the table of docs/background/estimate.md.
"""

import datetime
import json
import math
from typing import Any

from simcore.planner.load.accuracy import ACCURACY_FILE, Accuracy
from simcore.version import specplan_version
from tests.planner.estimate_page import PAGE, render, replace_table
from tests.planner.estimate_study import NUM_REQUESTS, draw_points, table

SEED = 20_261_130  # of the table alone: the closed form was made while looking at others
NUM_POINTS = 240


def measured() -> dict[str, Any]:
    """Errors by regime and metric over the table's own scenarios."""
    return table(list(draw_points(SEED, NUM_POINTS)))


def main() -> None:
    """Draw, simulate, compare, write."""
    found = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": "python -m tests.planner.make_estimate_table",
        "specplan_version": specplan_version(),
        "seed": SEED,
        "num_requests": NUM_REQUESTS,
        "regimes": measured(),
    }
    text = json.dumps(_finite(found), indent=1)
    accuracy = Accuracy.model_validate_json(text)
    ACCURACY_FILE.write_text(text + "\n", encoding="utf-8")
    page = replace_table(PAGE.read_text(encoding="utf-8"), render(accuracy))
    PAGE.write_text(page, encoding="utf-8")


def _finite(value: Any) -> Any:
    """The same with four decimals, null for an error without end."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    return value


if __name__ == "__main__":
    main()
