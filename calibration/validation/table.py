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
    yield "Errors in %: first prediction / second, with acceptance on prompts of the same data sets"
    yield "/ explained, with the run's own acceptance and padded attention (made after the run); in"
    yield "brackets the noise floor, where the cell was measured twice:"
    yield ""
    yield from _head(["load", "proposer", *COLUMNS.values()], 2)
    for cell in results.cells:
        shown = [_error(cell.numbers[name]) for name in COLUMNS]
        yield f"| {cell.load} | {cell.proposer} | {' | '.join(shown)} |"


def _error(number: Comparison) -> str:
    errors = (number.error, number.own_prompts_error, number.explained_error)
    shown = " / ".join(f"{100 * error:+.0f}" for error in errors)
    return f"{shown} {_noise(number.noise)}"


def _noise(noise: float | None) -> str:
    return "(–)" if noise is None else f"({100 * noise:.1f})"


def _decisions(results: Results) -> Iterator[str]:
    yield "Change of the median E2E by switching a proposer on, and whether its sign was predicted:"
    yield ""
    columns = ["first prediction", "second", "measured", "noise", "first", "second"]
    yield from _head(["load", "proposer", *columns], 2)
    for one in results.decisions:
        changes = (one.predicted_change, one.own_prompts_change, one.measured_change)
        shown = " | ".join(f"{100 * change:+.0f} %" for change in changes)
        once = ", measured once" if one.noise is None else ""
        words = " | ".join(said + once for said in (one.verdict, one.own_prompts_verdict))
        yield f"| {one.load} | {one.proposer} | {shown} | {_noise(one.noise)} | {words} |"


def _steps(results: Results) -> Iterator[str]:
    yield "The cost law on the very steps of the first run: error in % as predicted / with padded"
    yield "attention (share of the busy time), and the share of a core that the run had:"
    yield ""
    yield from _head(["load", "proposer", *KINDS, "all steps", "core"], 2)
    for cell in results.cells:
        total_s = sum(account.measured_s for account in cell.steps)
        kinds = [[account for account in cell.steps if account.kind == kind] for kind in KINDS]
        shown = [_law_error(accounts, total_s) for accounts in (*kinds, list(cell.steps))]
        share = f"{100 * cell.core_shares[0]:.1f} %"
        yield f"| {cell.load} | {cell.proposer} | {' | '.join(shown)} | {share} |"


def _law_error(accounts: list[StepAccount], total_s: float) -> str:
    measured_s = sum(account.measured_s for account in accounts)
    if measured_s == 0.0:
        return ""
    priced = sum(account.priced_s for account in accounts) / measured_s - 1.0
    padded = sum(account.padded_s for account in accounts) / measured_s - 1.0
    return f"{100 * priced:+.1f} / {100 * padded:+.1f} ({100 * measured_s / total_s:.0f})"
