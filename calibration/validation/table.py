"""The validation as tables in Markdown, and their place in a page."""

from collections.abc import Iterator

from calibration.validation.compare import Comparison
from calibration.validation.results import Results
from calibration.validation.step_account import StepAccount

KINDS = ("prefill", "mixed", "decode")
BEGIN, END = "<!-- loop: begin -->\n", "<!-- loop: end -->\n"
COLUMNS = {
    "ttft_p50_s": "TTFT p50",
    "ttft_p95_s": "TTFT p95",
    "tpot_p50_s": "TPOT p50",
    "tpot_p95_s": "TPOT p95",
    "e2e_p50_s": "E2E p50",
    "e2e_p95_s": "E2E p95",
    "output_tokens_per_s": "tokens/s",
    "accepted_tokens_per_cycle": "accepted",
}


def render(results: Results) -> str:
    """All tables."""
    parts = (_measured, _errors, _decisions, _steps)
    lines = [line for part in parts for line in ("", *part(results))][1:]
    return "".join(line + "\n" for line in lines)


def replace_tables(page: str, tables: str) -> str:
    """The page with its generated part made anew."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + tables + END + after


def _head(columns: list[str], num_words: int) -> list[str]:
    rule = ["---"] * num_words + ["---:"] * (len(columns) - num_words)
    return ["| " + " | ".join(columns) + " |", "|" + "|".join(rule) + "|"]


def _measured(results: Results) -> Iterator[str]:
    yield "Predicted → measured, first and second time (ms; accepted drafts a cycle):"
    yield ""
    yield from _head(["load", "proposer", *COLUMNS.values()], 2)
    for cell in results.cells:
        shown = [_values(name, cell.numbers[name]) for name in COLUMNS]
        yield f"| {cell.load}, {cell.rate_per_s:g}/s | {cell.proposer} | {' | '.join(shown)} |"


def _values(name: str, number: Comparison) -> str:
    scale, digits = (1e3, 0) if name.endswith("_s") and "per" not in name else (1.0, 1)
    digits = 2 if name.startswith("accepted") else digits
    measured = ", ".join(f"{scale * value:.{digits}f}" for value in number.measured)
    return f"{scale * number.predicted:.{digits}f} → {measured}"


def _errors(results: Results) -> Iterator[str]:
    yield "Error of the prediction in %, the noise floor in brackets, and, after the run, the"
    yield "error that is left with the run's own acceptance:"
    yield ""
    yield from _head(["load", "proposer", *COLUMNS.values()], 2)
    for cell in results.cells:
        shown = [_error(cell.numbers[name], cell.own_acceptance[name]) for name in COLUMNS]
        yield f"| {cell.load} | {cell.proposer} | {' | '.join(shown)} |"


def _error(number: Comparison, own_acceptance: float) -> str:
    return f"{100 * number.error:+.1f} ({100 * number.noise:.1f}) {100 * own_acceptance:+.1f}"


def _decisions(results: Results) -> Iterator[str]:
    yield "Change of the median E2E by switching a proposer on, and whether the sign was predicted:"
    yield ""
    yield from _head(["load", "proposer", "predicted", "measured", "noise", "decided"], 2)
    for one in results.decisions:
        verdict = "right" if one.is_right else "wrong"
        if one.is_within_noise:
            verdict += ", within noise"
        yield (
            f"| {one.load} | {one.proposer} | {100 * one.predicted_change:+.1f} % "
            f"| {100 * one.measured_change:+.1f} % | {100 * one.noise:.1f} % | {verdict} |"
        )


def _steps(results: Results) -> Iterator[str]:
    yield "The cost law on the very steps of the first run, error in % (share of the busy time):"
    yield ""
    yield from _head(["load", "proposer", *KINDS, "all"], 2)
    for cell in results.cells:
        total_s = sum(account.measured_s for account in cell.steps)
        kinds = [[account for account in cell.steps if account.kind == kind] for kind in KINDS]
        shown = [_law_error(accounts, total_s) for accounts in (*kinds, list(cell.steps))]
        yield f"| {cell.load} | {cell.proposer} | {' | '.join(shown)} |"


def _law_error(accounts: list[StepAccount], total_s: float) -> str:
    measured_s = sum(account.measured_s for account in accounts)
    if measured_s == 0.0:
        return ""
    error = sum(account.priced_s for account in accounts) / measured_s - 1.0
    return f"{100 * error:+.1f} ({100 * measured_s / total_s:.0f})"
