"""Every number that a page shows has a definition, of a field that exists."""

from simcore.metrics.headlines import HEADLINES, LATENCIES
from simcore.report.metric_words import MEANINGS, POINT_MEANINGS, meaning
from tests.metrics.test_documentation import _documented


def test_every_headline_is_defined_and_a_latency_says_its_point():
    for headline in HEADLINES:
        text = meaning(headline.metric)
        assert text.endswith(".")
        assert headline.name.split(" ")[0].lower() in text.lower()
    assert "95 %" in meaning("ttft.p95_s")
    assert "95 %" not in meaning("ttft.p50_s")


def test_every_definition_is_of_a_field_that_the_metrics_page_gives_a_formula():
    documented = _documented()
    assert set(MEANINGS) <= set(documented)
    assert {f"*.{point}" for point in POINT_MEANINGS} <= set(documented)


def test_two_numbers_never_share_a_definition():
    assert len(set(MEANINGS.values())) == len(MEANINGS)
    assert {name for name, _ in LATENCIES} <= set(MEANINGS)
