"""The page Truth: every study, its decisions and errors."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app.launch import ENTRY
from simcore.planner.load.accuracy import load_accuracy
from simcore.report.truth_text import accuracy_rows, choices_sentence, error_rows, median_rows
from simcore.truth import truth


def test_the_page_shows_every_study_as_it_was_measured():
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.switch_page("app_pages/truth.py").run()
    assert not at.exception, at.exception
    studies = truth().studies
    text = "\n".join(each.value for each in at.markdown)
    tables = [each.value.to_dict("records") for each in at.table]
    for study in studies:
        assert choices_sentence(study.choices) in text
        assert median_rows(study) in tables
        assert error_rows(study) in [each.value.to_dict("records") for each in at.dataframe]
    assert accuracy_rows(load_accuracy()) in tables
    assert len(at.get("plotly_chart")) == len(studies)
