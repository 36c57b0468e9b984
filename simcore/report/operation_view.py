"""What to run and watch: capacity, alert rules and the load test, as tables."""

from simcore.planner.document import Plan
from simcore.report.alerts import alert_rules
from simcore.report.capacity_text import capacity_rows, ledger_sentence
from simcore.report.engine_metrics import METRICS
from simcore.report.load_test import LoadTest
from simcore.report.slo_words import objective_words
from simcore.report.table import Table
from simcore.report.units import count, rate, seconds

ENGINE_NAMES = {"vllm": "vLLM", "sglang": "SGLang"}


def capacity_tables(plan: Plan) -> tuple[Table, ...]:
    """Off and on side by side; none where nobody asked."""
    found = plan.capacity
    if found is None:
        return ()
    rows = tuple((name, *cells) for name, cells in capacity_rows(found))
    source = (
        f"{objective_words(found.slo)}. {ledger_sentence(found)} Seeds {found.seeds[0]} to "
        f"{found.seeds[-1]} and more in doubt, {count(found.num_requests, 'requests')} a run."
    )
    header = ("at the largest load within the SLO", found.off.label, found.on.label)
    return (Table("The largest load within the SLO", header, rows, source),)


def alert_tables(plan: Plan) -> tuple[Table, ...]:
    """The rules of the alert files, a table an engine."""
    header = ("alert", "fires when", "severity", "what it says", "where the bound is from")
    return tuple(
        Table(
            f"{ENGINE_NAMES.get(engine, engine)}: alerts.{engine}.yaml",
            header,
            tuple(
                (
                    rule.name,
                    rule.expression,
                    f"{rule.severity}, for {rule.hold}",
                    rule.summary,
                    rule.source,
                )
                for rule in alert_rules(plan, engine)
            ),
            "Prometheus alerting rules; docs/reference/alert-rules.md.",
        )
        for engine in METRICS
    )


def load_test_table(test: LoadTest) -> Table:
    """The loads that decide."""
    rows = tuple(
        (
            load.name.replace("_", " "),
            rate(load.rate_per_s),
            f"{load.expected.speedup:.3f} × ({load.expected.interval[0]:.3f} to "
            f"{load.expected.interval[1]:.3f})",
            count(load.num_prompts, "requests"),
            seconds(load.run_s),
            load.why,
        )
        for load in test.loads
    )
    header = (
        *("load", "rate", "expected mean E2E off / on", "prompts an arm", "a run takes"),
        "reason",
    )
    source = "By the plan's curve between its loads; every load runs with and without speculation."
    return Table("Load test before and after launch", header, rows, source)
