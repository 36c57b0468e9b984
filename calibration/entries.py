"""The parts of a profile that say what was measured, and by whom it can be repeated."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date

from calibration import provenance
from calibration.model.target import LoadedModel
from calibration.proposers.ngram import NgramProposer
from calibration.records import RecordPlan, Request, check_cycles
from calibration.settings import MeasureSettings
from simcore.profile.schema import Proposer, Provenance


def proposer_entries(settings: MeasureSettings, draft: LoadedModel | None) -> dict[str, Proposer]:
    """The profile's entry of every measured proposer."""
    ngram = NgramProposer()
    sizes: dict[str, int | float | str] = {"max_n": ngram.max_n, "min_n": ngram.min_n}
    entries = {"ngram": Proposer(kind="ngram", settings=sizes)}
    if draft is not None:
        made_here = settings.draft is None
        entries["draft_model"] = Proposer(
            kind="draft_model",
            settings={**asdict(settings.distill)} if made_here else {},
            model=draft.identity,
            weight_bytes=draft.identity.weight_bytes,
            kv_bytes_per_token=draft.identity.kv_bytes_per_token,
        )
    return {name: entries[name] for name in settings.proposers}


def title(settings: MeasureSettings, target: LoadedModel) -> str:
    """What the profile is called on a page."""
    hardware = provenance.hardware(settings.device)
    cores = f", {hardware.threads} threads" if hardware.threads else ""
    return f"{target.identity.name} in {settings.dtype} on {hardware.name}{cores}"


def provenance_entry(
    settings: MeasureSettings,
    arguments: Sequence[str],
    plans: Sequence[RecordPlan],
    requests: dict[int, list[Request]],
    phase_s: dict[str, float],
) -> Provenance:
    """Command, versions, seeds, counts, and what the real cycles say about the traces."""
    notes = [
        "Steps are those of the serving loop over closed batches, with greedy verification of "
        "drafts that are rejected whole. Overhead is the loop outside the three phases.",
        "Wall time of this run's phases (less where it was resumed or the draft was cached): "
        + ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in phase_s.items()),
    ]
    for plan in plans:
        check = check_cycles(requests[plan.key], max(settings.grid.gammas))
        label = f"{plan.proposer}, {plan.domain}, T = {plan.sampling.temperature:g}"
        if check is None:
            notes.append(f"record {plan.key} ({label}): no real cycle ran")
            continue
        notes.append(
            f"record {plan.key} ({label}): {check.real_tokens_per_cycle:.3f} tokens a cycle in "
            f"{check.num_cycles} real cycles of {check.num_requests} requests, "
            f"{check.walked_tokens_per_cycle:.3f} walking their traces"
        )
    return Provenance(
        date=date.today().isoformat(),
        command=provenance.command_line(list(arguments)),
        versions=provenance.versions(),
        seeds={"decoding": settings.seed, "distillation": settings.distill.seed},
        sample_counts={
            "timing_rounds": settings.num_rounds,
            "requests": sum(map(len, requests.values())),
            "output_tokens": sum(r.trace.output_tokens for rs in requests.values() for r in rs),
            "real_cycles": sum(len(r.real_emitted) for rs in requests.values() for r in rs),
        },
        notes=tuple(notes),
    )
