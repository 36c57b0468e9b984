"""An SLO in words."""

from simcore.report.units import digits, seconds
from simcore.scenario import EVERY_LIMIT, SLO

LIMIT_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "longest gap (ITL)", "e2e_s": "E2E"}


def slo_words(slo: SLO) -> list[str]:
    """Each limit that a request must meet."""
    return [f"{LIMIT_NAMES[name]} at most {seconds(limit)}" for name, limit in slo.limits().items()]


def objective_words(slo: SLO) -> str:
    """The limits, and how many requests must meet them."""
    asked = []
    if slo.percentile is not None:
        asked.append(f"each at percentile {digits(slo.percentile)}")
    if (share := slo.required_shares().get(EVERY_LIMIT)) is not None:
        asked.append(f"{100 * share:g} % of the requests meet every limit")
    return f"{', '.join(slo_words(slo))}; {' and '.join(asked)}"
