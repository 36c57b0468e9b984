"""What an import understood, and what is missing to plan with, in lines and as JSON."""

from typing import Any

from simcore.acceptance.survival import conditional_from_survival, mean_emitted_tokens
from simcore.errors import ConversionError
from simcore.profile.conversions import survival_from_counts
from simcore.profile.counts import Counts
from simcore.profile.importers.reading import CountedRecord, Reading
from simcore.profile.schema import Profile, ProfilePart

MISSING = {
    "identity": "the target and the machine (--identity FILE, or --into a profile that has them)",
    "cost": "what a step costs (step samples, or --into a profile that has them)",
    "acceptance": "how drafts survive (an import that holds acceptance)",
}


def describe_reading(kind: str, reading: Reading) -> dict[str, Any]:
    """The reading as one JSON object: counts, survival, rates and lengths by γ."""
    return {
        "kind": kind,
        "engine": reading.engine,
        "model": reading.model,
        "records": [_record(record) for record in reading.records],
        "num_cost_shapes": 0 if reading.samples is None else len(reading.samples),
        "figures": reading.figures,
        "notes": list(reading.notes),
    }


def missing_to_plan(reading: Reading, profile: Profile | ProfilePart | None) -> list[str]:
    """What planning still needs, one sentence each."""
    lacking: tuple[str, ...] = getattr(profile, "missing", ())
    if profile is None:
        lacking = ("identity", "cost") if reading.samples is None else ("identity",)
        lacking = lacking if reading.records else (*lacking, "acceptance")
    found = [MISSING[name] for name in lacking]
    if profile is not None and not reading.records and reading.samples is None:
        found.append("anything to store: the files hold neither counts of drafts nor step times")
    for record in reading.records:
        for gamma, counts in record.counts.items():
            found += [f"γ = {gamma}: {reason}" for reason in [_refusal(counts, gamma)] if reason]
    return found


def summary_lines(described: dict[str, Any], missing: list[str]) -> list[str]:
    """The same for a person."""
    model = f", {described['model']}" if described["model"] else ""
    lines = [f"{described['kind']}: {described['engine']}{model}"]
    for record in described["records"]:
        lines += _record_lines(record)
    if described["num_cost_shapes"]:
        lines.append(f"step cost: {described['num_cost_shapes']} shapes")
    lines += [f"{text}: {value:.4g}" for text, value in described["figures"].items()]
    lines += [f"Note: {note}" for note in described["notes"]]
    lines += [f"Missing: {text}" for text in missing] or ["Nothing is missing to plan with."]
    return lines


def _record(record: CountedRecord) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": record.kind,
        "domain": record.domain,
        "temperature": record.temperature,
        "num_requests": record.num_requests,
        "gammas": {str(gamma): _counts(each, gamma) for gamma, each in record.counts.items()},
    }
    if record.traces is not None:
        found |= {"positions": len(record.traces), "max_num_speculative_tokens": record.max_gamma}
    return found


def _counts(counts: Counts, gamma: int) -> dict[str, Any]:
    found: dict[str, Any] = counts.model_dump(mode="json")
    if counts.num_drafts:
        accepted = counts.num_accepted_tokens / counts.num_drafts
        found["mean_acceptance_length"] = 1.0 + accepted  # of cycles that drafted, bonus included
    try:
        survival = survival_from_counts(counts, gamma)
    except ConversionError as error:
        return found | {"survival": None, "conditional": None, "reason": str(error)}
    return found | {
        "survival": survival.tolist(),
        "conditional": conditional_from_survival(survival).tolist(),
        "mean_emitted_tokens": mean_emitted_tokens(survival),
    }


def _refusal(counts: Counts, gamma: int) -> str | None:
    try:
        survival_from_counts(counts, gamma)
    except ConversionError as error:
        return str(error)
    return None


def _record_lines(record: dict[str, Any]) -> list[str]:
    where = f" on {record['domain']}" if record["domain"] else ""
    if record["temperature"] is not None:
        where += f" at temperature {record['temperature']:g}"
    requests = f", {record['num_requests']} requests" if record["num_requests"] else ""
    lines = [f"{record['kind']}{where}{requests}"]
    if "positions" in record:
        longest = record["max_num_speculative_tokens"]
        lines.append(f"  {record['positions']} output positions, γ = 1 to {longest}")
    for gamma, counts in record["gammas"].items():
        lines.append(f"  γ = {gamma}: {_totals(counts)}")
        if counts["survival"] is not None:
            lines.append(f"    survival by position {_rates(counts['survival'])}")
            lines.append(f"    conditional acceptance {_rates(counts['conditional'])}")
            lines.append(f"    tokens a cycle {counts['mean_emitted_tokens']:.3f}")
    return lines


def _totals(counts: dict[str, Any]) -> str:
    parts = [
        f"{counts[key]:,} {text}"
        for key, text in (
            ("num_cycles", "cycles"),
            ("num_drafts", "drafts"),
            ("num_draft_tokens", "drafted tokens"),
            ("num_accepted_tokens", "accepted"),
        )
        if counts[key] is not None
    ]
    if "mean_acceptance_length" in counts:
        parts.append(f"mean acceptance length {counts['mean_acceptance_length']:.3f}")
    return ", ".join(parts)


def _rates(values: list[float]) -> str:
    return " ".join(f"{value:.3f}" for value in values)
