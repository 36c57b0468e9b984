"""Recorded acceptance, fitted models and drift as plain text for a terminal."""

from collections.abc import Iterator

from simcore.acceptance.comparison import Errors, ModelComparison
from simcore.acceptance.drift import Change, Drift
from simcore.acceptance.heterogeneous_fit import FitReport
from simcore.acceptance.statistics import CycleStatistics, Figures

LEAST_P_VALUE = 0.001  # three digits show none below
SAME = 0.01  # relative errors below this are no news
FIGURE_NAMES = {
    "mean_by_request": "mean by request",
    "mean_by_token": "mean by token",
    "request_sd": "spread",
    "slowest": "slowest 5 %",
}


def statistics_text(found: dict[int, CycleStatistics], num_requests: int) -> str:
    """One line a γ, survival by depth below, and what one α would get wrong."""
    lines = [
        f"{num_requests} requests",
        "",
        f"{'γ':>3} {'cycles':>8} {'tokens/cycle':>12} {'one α':>7} {'lag-1':>7} {'within':>7} "
        f"{'spread':>7} {'slowest 5 %':>11}",
    ]
    for gamma, each in found.items():
        lag = each.lag1_correlation
        lines.append(
            f"{gamma:>3} {each.num_cycles:>8} {each.mean_emitted_tokens:>12.3f} "
            f"{each.iid_mean_emitted_tokens:>7.3f} {_number(lag.pooled):>7} "
            f"{_number(lag.within_request):>7} {_number(each.request_sd):>7} {each.slowest:>11.3f}"
        )
    for gamma, each in found.items():
        lines += ["", *_survival_lines(gamma, each)]
    lines += ["", *(one_rate_sentence(gamma, each) for gamma, each in found.items())]
    return "\n".join(lines)


def one_rate_sentence(gamma: int, found: CycleStatistics) -> str:
    """What one acceptance rate would get wrong, in the mean and between requests."""
    error = found.iid_mean_emitted_tokens / found.mean_emitted_tokens - 1.0
    mean = (
        "has the mean right"
        if abs(error) < SAME
        else f"promises {found.iid_mean_emitted_tokens:.2f} tokens a cycle where "
        f"{found.mean_emitted_tokens:.2f} are emitted ({error:+.0%})"
    )
    spread = ""
    if found.request_sd and found.iid_request_sd:
        spread = (
            f", and shows {found.iid_request_sd / found.request_sd:.0%} of the spread between "
            "requests"
        )
    return f"γ = {gamma}: one α = {found.acceptance_rate:.3f} {mean}{spread}."


def _survival_lines(gamma: int, found: CycleStatistics) -> Iterator[str]:
    yield f"γ = {gamma}"
    for name, values in (
        ("conditional", found.conditional),
        ("survival", found.survival),
        ("  low", found.survival_low),
        ("  high", found.survival_high),
        ("counted", found.survival_counted),
    ):
        yield f"  {name:12}" + " ".join(f"{value:.3f}" for value in values)


def comparison_text(found: ModelComparison) -> str:
    """The fit, then the errors on the test requests with and without runaways."""
    lines = [*_fit_lines(found.heterogeneous)]
    for title, errors in (
        ("all requests", found.errors),
        ("without runaways", found.errors_without_runaways),
    ):
        if errors:
            lines += ["", f"Error on the test file, {title}", *_error_lines(errors)]
    return "\n".join(lines)


def _fit_lines(report: FitReport) -> Iterator[str]:
    yield (
        f"heterogeneous, fitted at γ = {report.gamma} on {report.num_requests} requests, "
        f"{report.num_runaways} of them runaways"
    )
    yield ""
    yield f"{'parameter':20} {'value':>8} {'95 % interval':>18}"
    for name, each in report.parameters.items():
        interval = (
            "" if each.low is None or each.high is None else f"{each.low:.3f} to {each.high:.3f}"
        )
        told = "" if each.identified else "  not told by the data"
        yield f"{name:20} {each.value:>8.3f} {interval:>18}{told}"
    yield ""
    yield f"{'at the fitted γ':20} {'observed':>8} {'fitted':>8}"
    for name, figure in report.goodness.items():
        yield f"{name:20} {figure.observed:>8.3f} {figure.fitted:>8.3f}"


def _error_lines(errors: Errors) -> Iterator[str]:
    yield f"{'γ':>3} {'model':14}" + "".join(f"{FIGURE_NAMES[n]:>20}" for n in Figures._fields)
    for gamma, by_model in errors.items():
        for model, by_figure in by_model.items():
            cells = "".join(
                f"{each.absolute:>+10.3f} "
                + ("        –" if each.relative is None else f"{each.relative:>+9.1%}")
                for each in by_figure.values()
            )
            yield f"{gamma:>3} {model:14}{cells}"


def drift_text(found: Drift) -> str:
    """Which positions moved, the tokens a cycle, and the choice of γ."""
    lines = [
        f"A: {found.num_requests_a} requests, B: {found.num_requests_b} requests; runaways "
        f"({found.num_runaways_a} and {found.num_runaways_b}) left out"
    ]
    for gamma, each in found.gammas.items():
        lines += ["", f"γ = {gamma}"]
        lines += [
            _change_line(f"draft {depth}", change)
            for depth, change in enumerate(each.conditional, start=1)
        ]
        lines.append(
            _change_line("tokens/cycle", each.mean_emitted_tokens)
            + f"  (change {each.change_low:+.3f} to {each.change_high:+.3f})"
        )
    return "\n".join([*lines, "", choice_sentence(found)])


def choice_sentence(found: Drift) -> str:
    """What the change does to the draft length, under the stated cost of a draft."""
    names = [
        "off" if gamma == 0 else f"γ = {gamma}"
        for gamma in (found.best_gamma_a, found.best_gamma_b)
    ]
    cost = f"If drafting and verifying one token more costs {found.draft_cost:g} plain decode steps"
    if found.best_gamma_a == found.best_gamma_b:
        return f"{cost}, {names[0]} is best for both."
    return (
        f"{cost}, {names[0]} is best for A and {names[1]} for B; keeping {names[0]} loses "
        f"{found.loss:.1%} of the speed-up on B."
    )


def _change_line(name: str, change: Change) -> str:
    moved = "moved" if change.significant else "not significant"
    return (
        f"  {name:13} {change.a:.3f} -> {change.b:.3f} ({change.change:+.3f}), "
        f"p {_p_value(change.p_value)}: {moved}"
    )


def _p_value(value: float) -> str:
    return f"= {value:.3f}" if value >= LEAST_P_VALUE else f"< {LEAST_P_VALUE}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
