"""Sensitivities and uncertainties as plain text for a terminal."""

from simcore.planner.sensitivity_document import End, Sensitivity
from simcore.planner.uncertainty import UncertainHeadline, Uncertainty
from simcore.report.picture import origin_line
from simcore.report.sensitivity_figures import flip_words
from simcore.report.units import NOTHING, digits, percent

HEADER = ("input", "unit", "scenario", "low", "S there", "high", "S there", "decision")
UNCERTAINTY_HEADER = ("headline", "value", "95 % interval", "requests", "cost fit", "seeds")
GROWING = {"off": "off grows", "on": "on grows", "both": "both grow"}


def sensitivity_text(found: Sensitivity) -> str:
    """One line an input, the strongest first."""
    cells = [HEADER, *sensitivity_rows(found)]
    ranges = [f"Range of {each.name}: {each.range_reason}" for each in found.effects]
    lines = [
        sensitivity_sentence(found),
        origin_line(found.origin),
        "",
        *_aligned(cells, left={0, 1, len(HEADER) - 1}),
        "",
        *ranges,
        *(f"Left out, {name}: {reason}" for name, reason in found.left_out.items()),
        *(f"Note: {note}" for note in found.notes),
        *(
            f"Note: {each.name}: {each.flip.reason}"
            for each in found.effects
            if each.flip is not None and each.flip.reason
        ),
    ]
    return "\n".join(lines)


def sensitivity_sentence(found: Sensitivity) -> str:
    """What is moved, and the decision where nothing is."""
    return (
        f"{found.proposer} with γ = {found.num_speculative_tokens} against off: speed-up of mean "
        f"E2E {_speedup(found.base)}, so {found.decision}"
    )


def sensitivity_rows(found: Sensitivity) -> list[tuple[str, ...]]:
    """One row an input under HEADER, the strongest first."""
    return [
        (
            each.name,
            each.unit,
            digits(each.base),
            digits(each.low.value),
            _speedup(each.low),
            digits(each.high.value),
            _speedup(each.high),
            flip_words(each),
        )
        for each in found.effects
    ]


def uncertainty_text(found: Uncertainty) -> str:
    """Every headline with its interval and the shares of its variance, then what to measure."""
    other = "off" if found.against == 0 else f"γ = {found.against}"
    cells = [UNCERTAINTY_HEADER, *(_headline(each) for each in found.headlines)]
    verdict = "told apart" if found.is_distinguishable else "indistinguishable"
    lines = [
        f"{found.proposer} with γ = {found.num_speculative_tokens} against {other}: {verdict}",
        origin_line(found.origin),
        "",
        *_aligned(cells, left={0}),
        "",
        f"Next: {found.next_measurement.reason}.",
        *found.notes,
    ]
    return "\n".join(lines)


def _headline(each: UncertainHeadline) -> tuple[str, ...]:
    unit = f" {each.unit}" if each.unit not in ("", "share") else ""
    interval = NOTHING
    if each.interval is not None:
        interval = f"{digits(each.interval[0])} to {digits(each.interval[1])}{unit}"
    shares = ["unstated" if source.reason else percent(source.share) for source in each.sources]
    return (each.name, f"{digits(each.value)}{unit}", interval, *shares)


def _speedup(end: End) -> str:
    if end.speedup is not None:
        return f"{end.speedup:.3f}"
    return GROWING.get(end.grows or "", NOTHING)


def _aligned(cells: list[tuple[str, ...]], left: set[int]) -> list[str]:
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return [
        "  ".join(
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
