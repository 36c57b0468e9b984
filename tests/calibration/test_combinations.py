"""The committed table of combinations covers what is allowed and names tests that exist."""

import json

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from tests.calibration.combinations.listing import (
    ALL,
    DEPTH,
    LAW,
    RULES,
    SERVED,
    Combination,
)
from tests.calibration.combinations.measure import PHASES
from tests.calibration.combinations.page import JSON_FILE, PAGE, render

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def result():
    return json.loads(JSON_FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def entries(result):
    return {
        Combination(entry["proposer"], entry["topology"], entry["contract"]): entry
        for entry in result["combinations"]
    }


class Collected:
    """Node ids of a collection inside this process, whatever their marks."""

    def __init__(self) -> None:
        self.node_ids: set[str] = set()

    def pytest_collection_modifyitems(self, items) -> None:
        self.node_ids = {item.nodeid for item in items}


@pytest.fixture(scope="module")
def node_ids(request):
    collected = Collected()
    root = str(request.config.rootpath)
    options = ["--collect-only", "-qq", "--rootdir", root, "-m", "", "-p", "no:cacheprovider"]
    files = [f"{root}/{file}" for file in (SERVED, LAW, RULES)]
    pytest.main([*options, *files], plugins=[collected])
    return collected.node_ids


def test_every_combination_is_in_the_table_refused_exactly_where_the_check_refuses(entries):
    assert list(entries) == list(ALL)
    for one, entry in entries.items():
        assert tuple(entry.get("refused", ())) == one.reasons()
        assert entry["label"] == one.rule.label
        assert ("(not exact)" in entry["label"]) == (one.contract in ("typical", "threshold"))


def test_what_is_allowed_was_measured_on_three_domains_or_is_one_rule_with_what_was(entries):
    for one, entry in entries.items():
        if not one.is_allowed:
            assert "domains" not in entry
            continue
        same = one.measured_as
        assert entry["measured_as"] == same.contract
        assert list(entries[same]["domains"]) == ["chat", "code", "rewrite"]
        assert ("domains" in entry) == (same == one)


def test_rates_are_their_counts_and_times_have_every_phase(entries):
    for entry in entries.values():
        if "domains" in entry:
            assert set(entry["median_s"]) == {*PHASES, "cycle"}
            assert min(entry["median_s"].values()) > 0.0
        for found in entry.get("domains", {}).values():
            assert len(found["survivors"]) == DEPTH
            counts = [found["cycles"], found["cycles_with_drafts"], *found["survivors"]]
            assert counts == sorted(counts, reverse=True)
            rates = [kept / found["cycles"] for kept in found["survivors"]]
            assert found["survival"] == pytest.approx(rates, abs=1e-4)
            assert found["tokens_per_cycle"] == pytest.approx(1.0 + sum(rates), abs=1e-3)


def test_every_allowed_combination_names_tests_that_exist(entries, node_ids):
    for one, entry in entries.items():
        assert tuple(entry.get("tests", ())) == (one.tests if one.is_allowed else ())
        if one.is_allowed:
            assert entry["tests"]
            assert set(entry["tests"]) <= node_ids


def test_a_test_that_does_not_exist_would_be_noticed(node_ids):
    assert f"{LAW}::test_sampled_texts_of_an_exact_combination_follow_the_law[hope]" not in node_ids
    assert len(node_ids) > len(ALL)


def test_the_page_is_what_the_figures_render_to(result):
    assert PAGE.read_text(encoding="utf-8") == render(result)
