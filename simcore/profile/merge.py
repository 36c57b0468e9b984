"""An import becomes a profile: a new one, or part of one that is there."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
from pydantic import ValidationError

from simcore.cost.fit import fit_imported
from simcore.cost.law import CostLaw, LinearLaw
from simcore.errors import EngineFileError, ProfileError
from simcore.profile.import_record import complete_record
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import CountedRecord, Reading
from simcore.profile.schema import (
    SCHEMA_VERSION,
    AcceptanceRecord,
    Identity,
    Profile,
    ProfilePart,
    Proposer,
    ProposerKind,
    Provenance,
    Source,
)
from simcore.profile.store import load_profile_or_part, read_checked, write_profile_or_part
from simcore.profile.tables import to_arrow
from simcore.validation import describe_validation_error

if TYPE_CHECKING:
    import pandas as pd

    Frames = dict[str, pd.DataFrame | None]

# A merged profile is as good as its weakest numbers.
WEAKEST_LAST = (Source.MEASURED, Source.IMPORTED, Source.PUBLISHED, Source.ESTIMATED)
ADDED_TABLES = {"traces": "traces", "requests": "rows"}  # table -> attribute of a CountedRecord


@dataclass(frozen=True)
class Merge:
    """What is written: the profile (or the part of one), and its tables."""

    profile: Profile | ProfilePart
    frames: "Frames"
    notes: tuple[str, ...] = ()


@dataclass
class _Draft:
    """A profile while it grows; the fields are those of ProfilePart."""

    values: dict[str, Any]
    frames: "Frames" = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def merge(
    reading: Reading,
    options: ImportOptions,
    *,
    name: str,
    date: str,
    files: tuple[str, ...],
    into: str | None = None,
    identity: Identity | None = None,
    replace_records: bool = False,
) -> Merge:
    """The reading as a profile, new or on top of `into`. Writes nothing.

    Raises EngineFileError where options are missing or contradict the files, ProfileError where
    the result would contradict the profile it is merged into.
    """
    draft = _start(name, date, reading, into)
    if identity is not None:
        draft.values["identity"] = identity
    _check_target(draft, reading, options, into)
    if reading.samples is not None:
        _add_cost(draft, reading, options)
    for found in reading.records:
        _add_record(
            draft, complete_record(found, reading, options, files), found, options, replace_records
        )
    if not reading.records and reading.samples is None:
        raise EngineFileError(
            f"nothing to store: {reading.notes[0] if reading.notes else 'no counts'}"
        )
    _note_origin(draft, reading, files, date)
    return _finish(draft)


def write_merge(merged: Merge, folder: Path) -> None:
    """Write it to `folder`, whole or not at all. Raises ProfileError."""
    write_profile_or_part(merged.profile, folder, merged.frames)


def _start(name: str, date: str, reading: Reading, into: str | None) -> _Draft:
    if into is None:
        values: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "title": f"Imported from {reading.engine}",
            "source": Source.IMPORTED,
            "identity": None,
            "provenance": Provenance(date=date),
            "proposers": {},
            "cost": None,
            "acceptance": (),
        }
        return _Draft(values | {"name": name})
    profile, folder = load_profile_or_part(into)
    held = {key: getattr(profile, key) for key in type(profile).model_fields}
    frames: Frames = {
        table: read_checked(profile, folder, table).to_pandas() for table in profile.tables
    }
    source = max(profile.source, Source.IMPORTED, key=WEAKEST_LAST.index)
    return _Draft(held | {"name": name, "source": source}, frames)


# --- identity -----------------------------------------------------------------------------------


def _check_target(
    draft: _Draft, reading: Reading, options: ImportOptions, into: str | None
) -> None:
    """Acceptance and cost are of one target in one coding; anything else is refused."""
    identity: Identity | None = draft.values["identity"]
    if identity is None:
        return
    target = identity.target
    found = options.target or reading.model
    if found is not None and found.rsplit("/", 1)[-1] != target.name.rsplit("/", 1)[-1]:
        raise ProfileError(
            f"the files are of {found!r}, profile {into or draft.values['name']!r} of "
            f"{target.name!r}; if they are the same model, say --target {target.name}"
        )
    said = {"quantization": options.target_quantization, "dtype": options.target_dtype}
    for key, value in said.items():
        if value is not None and value != getattr(target, key):
            raise ProfileError(
                f"the files are of a target with {key} {value!r}, the profile's has "
                f"{getattr(target, key)!r}; it changes cost and acceptance, so they never mix"
            )


# --- acceptance ---------------------------------------------------------------------------------


def _add_record(
    draft: _Draft,
    record: AcceptanceRecord,
    found: CountedRecord,
    options: ImportOptions,
    replace_records: bool,
) -> None:
    _add_proposer(draft, record.proposer, options)
    held: tuple[AcceptanceRecord, ...] = draft.values["acceptance"]
    same = [each for each in held if _identity_of(each) == _identity_of(record)]
    if same and not replace_records:
        record = _joined(same[0], record)
    elif same:
        for name in ADDED_TABLES:
            frame = draft.frames.get(name)
            if frame is not None:
                draft.frames[name] = _or_none(frame[frame["record"] != same[0].key])
    key = same[0].key if same else max((each.key for each in held), default=-1) + 1
    record = record.model_copy(update={"key": key})
    others = tuple(each for each in held if each not in same)
    draft.values["acceptance"] = (*others, record)
    _add_frames(draft, key, found)


def _identity_of(record: AcceptanceRecord) -> tuple[object, ...]:
    return record.proposer, record.domain, record.contract, record.sampling


def _joined(held: AcceptanceRecord, record: AcceptanceRecord) -> AcceptanceRecord:
    """Counts at other γ join the record that is there; anything else would count twice."""
    alike = held.kind == record.kind and held.counts and not set(held.counts) & set(record.counts)
    if not alike or _engine_of(held) != _engine_of(record):
        raise ProfileError(
            f"the profile already holds a {held.kind!r} of {held.proposer!r} on {held.domain!r} "
            f"at γ = {list(held.gammas())[-4:]} under this sampling; name another --domain, or "
            "pass --replace"
        )
    counts = held.counts | record.counts
    changes = {
        "counts": dict(sorted(counts.items())),
        "max_num_speculative_tokens": max(counts),
        "num_requests": held.num_requests + record.num_requests,
    }
    return held.model_copy(update=changes)


def _engine_of(record: AcceptanceRecord) -> tuple[object, ...] | None:
    if record.origin is None:
        return None
    said = record.origin.model_dump(exclude={"files", "notes", "scope"})
    return tuple(sorted(said.items(), key=str))


def _add_proposer(draft: _Draft, name: str, options: ImportOptions) -> None:
    proposers: dict[str, Proposer] = draft.values["proposers"]
    kind = options.proposer_kind
    if name in proposers:
        if kind is not None and kind != proposers[name].kind:
            raise ProfileError(
                f"proposer {name!r} of the profile is of kind {proposers[name].kind!r}, "
                f"--proposer-kind says {kind!r}; expected the same"
            )
        return
    cost = draft.values["cost"]
    if cost is not None and name not in cost.propose:
        raise ProfileError(
            f"the profile has no cost of proposing with {name!r}; it has "
            f"{sorted(cost.propose)}: name one of these with --proposer, or measure it"
        )
    if kind is None:
        raise EngineFileError(
            f"proposer {name!r} is new; state what it is with --proposer-kind: one of "
            f"{', '.join(get_args(ProposerKind))}"
        )
    draft.values["proposers"] = proposers | {name: Proposer(kind=kind)}


def _add_frames(draft: _Draft, key: int, found: CountedRecord) -> None:
    for name, attribute in ADDED_TABLES.items():
        added = getattr(found, attribute)
        if added is None:
            continue
        parts = [added.assign(record=key)]
        if (held := draft.frames.get(name)) is not None:
            parts.insert(0, held)
        # Joined as Arrow tables: types are those of the schema, a column that one lacks is null.
        whole = pa.concat_tables(
            [to_arrow(name, part) for part in parts], promote_options="default"
        )
        draft.frames[name] = whole.to_pandas()


def _or_none(frame: "pd.DataFrame") -> "pd.DataFrame | None":
    return None if frame.empty else frame


# --- cost ---------------------------------------------------------------------------------------


def _add_cost(draft: _Draft, reading: Reading, options: ImportOptions) -> None:
    """The law fitted to the samples takes the place of the profile's; too few are only noted."""
    assert reading.samples is not None
    names = [*draft.values["proposers"]]
    if options.proposer is not None and options.proposer not in names:
        names.append(options.proposer)
    if reading.whole_steps and len(names) > 1:
        raise ProfileError(
            f"the samples time whole steps, drafting of one proposer included, and the profile has "
            f"{', '.join(names)}; expected one: import target passes instead (step_cost_csv)"
        )
    try:
        law = fit_imported(reading.samples, names)
    except ProfileError as error:
        if not reading.records:
            raise
        draft.notes.append(f"No cost law: {error}.")
        return
    held: CostLaw | None = draft.values["cost"]
    if held is not None and not reading.whole_steps:
        law = _with_held_phases(law, held, reading.samples)
    draft.values["cost"] = law
    draft.frames["cost"] = reading.samples
    draft.notes.append(_about_cost(reading, law, names))


def _with_held_phases(law: CostLaw, held: CostLaw, samples: "pd.DataFrame") -> CostLaw:
    """Samples of target passes say nothing of the other phases: those stay as they were."""
    priced, phases = set(samples["proposer"].dropna()), set(samples["phase"])
    kept = {name: each for name, each in held.propose.items() if name not in priced}
    changes: dict[str, object] = {"propose": law.propose | kept}
    for name in ("idle_propose", "host_overlap"):
        changes[name] = getattr(held, name)
    # Samples time a proposer's prefill, and nothing else of what surrounds its calls.
    changes["proposer_runs"] = held.proposer_runs | {
        name: held.proposer_runs.get(name, run).model_copy(
            update={"per_prefill_token_s": run.per_prefill_token_s}
        )
        for name, run in law.proposer_runs.items()
    }
    if "reconcile" not in phases:
        changes["reconcile"] = held.reconcile
    if "overhead" not in phases:
        changes["overhead_s"] = held.overhead_s
    return law.model_copy(update=changes)


def _about_cost(reading: Reading, law: CostLaw, names: list[str]) -> str:
    assert reading.samples is not None
    text = f"Cost law fitted to {len(reading.samples)} shapes"
    if reading.whole_steps and not set(reading.samples["proposer"].dropna()):
        return text + (
            " of whole steps: drafting, sampling and scheduling are inside the target's time, so a "
            "step without drafts is priced as if they ran."
        )
    free = sorted(name for name in names if law.propose[name] == LinearLaw())
    return text + (f"; proposing with {', '.join(free)} is free: no samples." if free else ".")


# --- the whole ----------------------------------------------------------------------------------


def _note_origin(draft: _Draft, reading: Reading, files: tuple[str, ...], date: str) -> None:
    said: Provenance = draft.values["provenance"]
    what = " and ".join(
        text
        for text, value in (("acceptance", reading.records), ("cost", reading.samples is not None))
        if value
    )
    note = f"{what} imported on {date} from {reading.engine}: {', '.join(files)}"
    draft.values["provenance"] = said.model_copy(
        update={"notes": (*said.notes, note, *draft.notes)}
    )


def _finish(draft: _Draft) -> Merge:
    values = draft.values | {"tables": {}}
    values.pop("missing", None)
    lacking = [name for name in ("identity", "cost", "acceptance") if not values[name]]
    try:
        profile: Profile | ProfilePart = (
            ProfilePart(**values, missing=tuple(lacking)) if lacking else Profile(**values)
        )
    except ValidationError as error:
        raise ProfileError(f"the merged profile: {describe_validation_error(error)}") from None
    return Merge(profile, draft.frames, tuple(draft.notes))
