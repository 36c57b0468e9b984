"""One measurement from models to profile: distil, time, decode, fit, write."""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from calibration import provenance
from calibration.compatibility import check_draft
from calibration.costs import timed_rounds
from calibration.distill import distilled_draft
from calibration.entries import proposer_entries, provenance_entry, title
from calibration.errors import CalibrationError
from calibration.model.target import LoadedModel, load_decoder
from calibration.models import load_model
from calibration.progress import Track, silent
from calibration.promptset import encode_prompts, read_prompts
from calibration.proposers.ngram import NgramProposer
from calibration.records import (
    Decoding,
    TraceSettings,
    acceptance_record,
    measure_requests,
    plan_records,
    traces_table,
)
from calibration.samples import samples_table
from calibration.serve.proposing import Proposing, by_draft_model, by_lookup
from calibration.settings import MeasureSettings
from calibration.workfolder import WorkFolder
from simcore.cost.fit import fit_cost
from simcore.profile.schema import Identity, Profile, Source
from simcore.profile.store import StoredProfile, write_profile


@dataclass(frozen=True)
class Measured:
    """The written profile and how long its phases took."""

    stored: StoredProfile
    phase_s: dict[str, float]


def measure(
    settings: MeasureSettings, arguments: Sequence[str] = (), track: Track = silent
) -> Measured:
    """Run a measurement and write its profile; a killed one is taken up where it stopped.

    Raises CalibrationError for what cannot be measured, before anything is written.
    """
    _check_output(settings.output)
    provenance.use_threads(settings.threads)
    prompts = read_prompts(settings.prompts, settings.prompts_per_domain)
    target = load_decoder(settings.target, settings.dtype, settings.device)
    assert target.tokenizer is not None  # a loaded folder has one
    encoded = encode_prompts(prompts, target.tokenizer, target.identity.vocab_size)
    _check_context(settings, target, encoded)
    clock = _PhaseClock()
    draft = _draft(settings, target, track)
    decoding = Decoding(target, _proposing(settings, draft))
    clock.lap("draft")
    settings = replace(settings, threads=torch.get_num_threads())
    work = WorkFolder(
        settings.output, _fingerprint(settings, target, draft, encoded), resume=settings.resume
    )
    text_ids = [token for requests in encoded.values() for ids in requests for token in ids]
    rounds = timed_rounds(
        target,
        decoding.proposing,
        settings.grid,
        text_ids,
        settings.num_rounds,
        work,
        track,
    )
    clock.lap("timing")
    plans = plan_records(settings.proposers, list(encoded), settings.temperatures)
    requests = measure_requests(decoding, plans, encoded, _trace_settings(settings), work, track)
    clock.lap("decoding")
    cost = samples_table(rounds)
    profile = Profile(
        schema_version=1,
        name=settings.name,
        title=title(settings, target),
        source=Source.MEASURED,
        identity=Identity(
            target=target.identity,
            hardware=provenance.hardware(settings.device),
            engine=provenance.engine(),
        ),
        provenance=provenance_entry(settings, arguments, plans, requests, clock.phase_s),
        proposers=proposer_entries(settings, draft),
        cost=fit_cost(cost, settings.proposers, pads_attention=True),
        acceptance=tuple(
            acceptance_record(plan, requests[plan.key], max(settings.grid.gammas)) for plan in plans
        ),
    )
    stored = write_profile(profile, settings.output, cost=cost, traces=traces_table(requests))
    work.remove()
    return Measured(stored, clock.phase_s)


class _PhaseClock:
    """Wall time of the phases of this run."""

    def __init__(self) -> None:
        self.phase_s: dict[str, float] = {}
        self._last_s = time.monotonic()

    def lap(self, phase: str) -> None:
        now_s = time.monotonic()
        self.phase_s[phase] = round(now_s - self._last_s, 1)
        self._last_s = now_s


def _check_output(output: Path) -> None:
    foreign = output.exists() and not (output / "profile.json").is_file()
    if foreign and (not output.is_dir() or any(output.iterdir())):
        raise CalibrationError(
            f"output '{output}' exists and is no profile; expected a new or empty folder or a "
            "profile to replace; choose another --output"
        )
    above = next(folder for folder in output.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise CalibrationError(
            f"output '{output}' cannot be made, for nothing can be written in '{above}'; expected "
            "a folder that can; choose another --output"
        )


def _check_context(
    settings: MeasureSettings, target: LoadedModel, encoded: dict[str, list[list[int]]]
) -> None:
    """Refuse texts that the target was not made for now, not when hours have been measured."""
    room_tokens = target.decoder.shape.max_context_tokens
    output_tokens = settings.max_tokens + max(settings.grid.gammas)
    longest = max(len(ids) for requests in encoded.values() for ids in requests)
    if longest + output_tokens > room_tokens:
        raise CalibrationError(
            f"a prompt of {longest} tokens may grow by {output_tokens}, the target was made for "
            f"{room_tokens}; expected less: lower --max-tokens or leave the prompt out"
        )


def _draft(settings: MeasureSettings, target: LoadedModel, track: Track) -> LoadedModel | None:
    if "draft_model" not in settings.proposers:
        return None
    folder = settings.draft or _distilled(settings, track)
    draft = load_decoder(folder, settings.dtype, settings.device)
    check_draft(target, draft)
    if settings.draft is None:  # its folder is named by a hash
        layers = settings.distill.num_layers
        name = f"{target.identity.name} distilled to {layers} layers"
        draft = replace(draft, identity=draft.identity.model_copy(update={"name": name}))
    return draft


def _distilled(settings: MeasureSettings, track: Track) -> Path:
    trained = load_model(settings.target, settings.dtype, settings.device)
    return distilled_draft(trained, settings.distill, track)


def _proposing(settings: MeasureSettings, draft: LoadedModel | None) -> dict[str, Proposing]:
    made = {"ngram": by_lookup(NgramProposer)}
    if draft is not None:
        made["draft_model"] = by_draft_model(draft)
    return {name: made[name] for name in settings.proposers}


def _trace_settings(settings: MeasureSettings) -> TraceSettings:
    return TraceSettings(
        max_gamma=max(settings.grid.gammas),
        max_tokens=settings.max_tokens,
        decoded_per_domain=settings.decoded_per_domain,
        temperatures=settings.temperatures,
        seed=settings.seed,
    )


def _fingerprint(
    settings: MeasureSettings,
    target: LoadedModel,
    draft: LoadedModel | None,
    encoded: dict[str, list[list[int]]],
) -> dict[str, Any]:
    """Everything that the partial results depend on; paths only by what lies there."""
    asked = asdict(settings)
    for path in ("output", "target", "draft", "prompts", "resume", "name"):
        del asked[path]
    return asked | {
        "target": target.identity.revision,
        "draft": draft.identity.revision if draft else None,
        "prompts": hashlib.sha256(repr(encoded).encode()).hexdigest(),
        "versions": provenance.versions(),
        "hardware": provenance.hardware(settings.device).model_dump(),
    }
