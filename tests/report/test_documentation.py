"""The pages about engine settings and alerts say what the code does."""

import re
from pathlib import Path

import pytest

from simcore.report.alerts import alert_rules
from simcore.report.flags import ENGINES
from tests.report.test_flags import decided

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def settings_page() -> str:
    return (DOCS / "reference" / "engine-settings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ENGINES)
def test_every_limit_is_a_row_of_the_page_and_no_other_is(settings_page, name):
    engine = ENGINES[name]
    rows = set()
    for limit in engine.limits:
        kinds = f" ({', '.join(limit.kinds)})" if limit.kinds else ""
        versions = limit.missing_in or "all"
        cells = (limit.ability.value + kinds, versions, limit.because, limit.nearest_words)
        rows.add(f"| {engine.engine} | {' | '.join(cells)} |")
    part = settings_page.split("## What an engine cannot do")[1]
    assert rows == set(re.findall(rf"^\| {re.escape(engine.engine)} \| .*$", part, re.MULTILINE))


@pytest.mark.parametrize("name", ENGINES)
def test_the_versions_of_the_page_are_those_written_for(settings_page, name):
    engine = ENGINES[name]
    row = re.search(rf"^\| {re.escape(engine.engine)} \| (.*) \| `{name}` \|$", settings_page, re.M)
    assert row[1].startswith(engine.first)
    assert engine.last in row[1]


def test_every_rule_is_on_the_page_about_monitoring(plan):
    page = (DOCS / "reference" / "alert-rules.md").read_text(encoding="utf-8")
    for chosen in (plan, decided(plan, 0)):
        for rule in alert_rules(chosen, "vllm"):
            stem = re.sub(r"(\d+|(TTFT|TPOT|E2E)Burns.*|AbovePlan|BelowPlan)$", "", rule.name)
            assert stem in page, rule.name
