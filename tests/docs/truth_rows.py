"""The README's table of specplan's own errors, from the data of the page Truth."""

from simcore.report.truth_text import choices_sentence, median_rows
from simcore.truth import Study, truth

FIGURES = ("E2E p50", "TPOT p50")
COLUMNS = ("median error", "median noise")


def truth_rows() -> list[str]:
    """Markdown, one row a study."""
    return [_row(study) for study in truth().studies]


def _row(study: Study) -> str:
    medians = {row["figure"]: row for row in median_rows(study)}
    choices = choices_sentence(study.choices).replace(" decisions between on and off were", "")
    errors = [medians[name][column] for name in FIGURES for column in COLUMNS]
    return f"| {' | '.join([study.title, choices, *errors])} |"
