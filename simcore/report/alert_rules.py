"""Prometheus alerting rules as data, and as the YAML of a rule file."""

import re
from dataclasses import dataclass
from typing import Literal

from simcore.report.engine import HUB_ID, yaml_text

WINDOWS_S = {"5m": 300, "10m": 600, "15m": 900, "30m": 1800, "1h": 3600, "2h": 7200, "6h": 21600}
LONGEST_WINDOW, LONGEST_WINDOW_S = "1d", 86400
METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True)
class AlertRule:
    """One rule: an expression that is true while something is wrong."""

    name: str
    expression: str  # PromQL
    hold: str  # how long it must be true: `for`
    severity: Literal["info", "warning", "critical"]
    summary: str  # what happened and what to do; {{ $value }} is the measured value
    source: str  # of the bound


@dataclass(frozen=True)
class Selector:
    """Series of one served model, or of every one where its name is not safe to write."""

    model: str | None

    @classmethod
    def of(cls, name: str) -> "Selector":
        """By model_name, which both engines label with the name that they serve under."""
        return cls(name if HUB_ID.fullmatch(name) else None)

    def series(self, metric: str, **labels: str) -> str:
        """`metric{...}`."""
        pairs = labels | ({"model_name": self.model} if self.model else {})
        inside = ",".join(f'{key}="{value}"' for key, value in pairs.items())
        return f"{metric}{{{inside}}}" if inside else metric

    def growth(self, metric: str, window: str, **labels: str) -> str:
        """What a counter grew by, ranks and replicas summed."""
        return f"sum by (model_name) (increase({self.series(metric, **labels)}[{window}]))"

    def rate(self, metric: str, window: str) -> str:
        """A counter's growth a second, ranks and replicas summed."""
        return f"sum by (model_name) (rate({self.series(metric)}[{window}]))"

    def mean(self, metric: str, window: str, over: Literal["sum", "avg", "max"]) -> str:
        """A gauge's mean over time, then over its ranks and replicas."""
        return f"{over} by (model_name) (avg_over_time({self.series(metric)}[{window}]))"

    def quantile(self, share: float, histogram: str, window: str) -> str:
        """A histogram's quantile over a window."""
        buckets = self.series(f"{histogram}_bucket")
        return f"histogram_quantile({share:g}, sum by (le, model_name) (rate({buckets}[{window}])))"


def window_for(seconds: float) -> str:
    """The shortest window of WINDOWS_S that lasts so long, at most LONGEST_WINDOW."""
    return next((name for name, s in WINDOWS_S.items() if s >= seconds), LONGEST_WINDOW)


def window_s(window: str) -> int:
    """Length of a window by name."""
    return WINDOWS_S.get(window, LONGEST_WINDOW_S)


def rules_yaml(group: str, rules: tuple[AlertRule, ...]) -> str:
    """A rule file of one group, as Prometheus and `promtool check rules` read it."""
    entries = [
        {
            "alert": rule.name,
            "expr": rule.expression,
            "for": rule.hold,
            "labels": {"severity": rule.severity},
            "annotations": {"summary": rule.summary, "bound": rule.source},
        }
        for rule in rules
    ]
    return yaml_text({"groups": [{"name": group, "rules": entries}]})
