"""What is kept of one simulated run: one row, the same whoever computed it.

Columns are the summary's headline numbers with their units in their names
(docs/reference/sweeps.md).
"""

from typing import Any, NamedTuple

from simcore.metrics.headlines import HEADLINES, Headline
from simcore.metrics.replicated import numbers_of
from simcore.metrics.summary import Summary

Row = dict[str, Any]

# A change of what a row holds or means; rows of another version are not read.
RESULTS_VERSION = 1

UNIT_ENDINGS = {"share": "_fraction", "tokens": "_tokens", "requests": "_requests"}


class Column(NamedTuple):
    """One column and its type in the store."""

    name: str
    type: str


def _column_of(headline: Headline) -> str:
    """`ttft.p95_s` -> `ttft_p95_s`; a unit that the summary's name leaves out is added."""
    name = headline.metric.replace(".", "_")
    ending = UNIT_ENDINGS.get(headline.unit, "")
    return name if name.endswith(ending) else name + ending


OTHERS = {
    "duration_s": "duration_s",
    "is_saturated": "is_saturated",
    "mean_context_tokens": "mean_context_tokens",
    "num_counted": "num_counted",
    "num_requests.finished": "num_finished",
    "num_restarts": "num_restarts",
    "num_steps": "num_steps",
    "kv.lost_tokens": "kv_lost_tokens",
    "tokens.stitched_tokens": "stitched_tokens",
    "offered_rate_per_s": "offered_rate_per_s",
}
# column -> dotted name of the summary's number
METRICS = {_column_of(each): each.metric for each in HEADLINES} | {
    column: metric for metric, column in OTHERS.items()
}
IDENTITY = (
    Column("key", "VARCHAR"),
    Column("results_version", "BIGINT"),
    Column("specplan_version", "VARCHAR"),
    Column("simulator_sha256", "VARCHAR"),
    Column("profile", "VARCHAR"),
    Column("profile_source", "VARCHAR"),
    Column("profile_sha256", "VARCHAR"),
    Column("contract", "VARCHAR"),
    Column("acceptance_model", "VARCHAR"),
    Column("mismatches", "VARCHAR"),  # JSON list
    Column("requests_sha256", "VARCHAR"),  # of domains and lengths: which requests were met
    Column("seed", "BIGINT"),
    Column("scenario", "VARCHAR"),  # JSON; simulates this run again
)
COLUMNS = (*IDENTITY, *(Column(name, "DOUBLE") for name in METRICS))

# What a sweep may look for the best of.
LARGEST = (
    "goodput_per_s",
    "goodput_fraction",
    "request_rate_per_s",
    "output_rate_tokens_per_s",
    "served_fraction",
)
SMALLEST = (
    *(name for name in METRICS if name.split("_")[0] in ("ttft", "tpot", "itl", "e2e", "queue")),
    "consumption_energy_j_per_output_token",
    "consumption_cost_usd_per_million_output_tokens",
)
OBJECTIVES = (*LARGEST, *SMALLEST)


def metrics_row(summary: Summary) -> Row:
    """The numbers of a row; null where the summary has none."""
    numbers = numbers_of(summary)
    return {column: numbers.get(metric) for column, metric in METRICS.items()}
