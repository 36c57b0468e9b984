"""Result files of `vllm bench serve --save-result`: one JSON object a run.

Written for vLLM 0.32. The speculation figures are differences of /metrics over the run, summed
over every label set of the server that it talked to. The acceptance rate is in percent, the rates
by position are fractions.
"""

import math

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.json_fields import Fields, first_object, objects
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import CountedRecord, Reading, check_gamma, make_counts

KEYS = ("spec_decode_num_drafts", "spec_decode_accepted_tokens")
RATES = "spec_decode_per_position_acceptance_rates"
TOLERANCE = 1e-3
FIGURES = {
    "mean_ttft_ms": "mean TTFT, ms",
    "mean_tpot_ms": "mean TPOT, ms",
    "mean_itl_ms": "mean gap between chunks, about a step, ms",
    "output_throughput": "output tokens/s",
}


def recognises(file: EngineFile) -> bool:
    """Whether the first object is such a run, with or without speculation."""
    first = first_object(file)
    return {"model_id", "num_prompts", "mean_tpot_ms"} <= set(first)


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Position counters of each run, runs of one γ summed. Raises EngineFileError."""
    runs = [run for file in files for run in objects(file)]
    speculative = [run for run in runs if run.has(*KEYS) and run.count(KEYS[0]) > 0]
    if not speculative:
        raise EngineFileError(
            f"{files[0].name} holds no speculation figures: the run was plain, failed, or older "
            "than the counters; give a run that speculated"
        )
    by_gamma: dict[int, list[dict[str, int]]] = {}
    for run in speculative:
        gamma, counted = _counted(run, options)
        by_gamma.setdefault(gamma, []).append(counted)
    records = tuple(_record(files[0].name, g, each, options) for g, each in by_gamma.items())
    models = {run.text("model_id") for run in runs}
    last = speculative[-1]
    return Reading(
        engine="vLLM",
        records=records,
        model=models.pop() if len(models) == 1 else None,
        figures={text: last.number(key) for key, text in FIGURES.items() if last.has(key)}
        | _chunks(last),
        notes=_notes(speculative, len(runs) - len(speculative)),
    )


def _counted(run: Fields, options: ImportOptions) -> tuple[int, dict[str, int]]:
    drafts, accepted = run.count(KEYS[0]), run.count(KEYS[1])
    drafted = run.count("spec_decode_draft_tokens")
    rates = run.numbers(RATES)
    gamma = check_gamma(run.where, len(rates), options.gamma)
    _check_units(run, drafts, accepted, drafted, rates)
    counted = {"drafts": drafts, "drafted": drafted, "accepted": accepted}
    # Rates are quotients of counts in full precision, so the counts come back whole.
    counted |= {f"position {k}": round(rate * drafts) for k, rate in enumerate(rates)}
    completed = run.maybe_count("completed") or 0
    counted["requests"] = completed
    counted["steps"] = (run.maybe_count("total_output_tokens") or 0) - accepted - completed
    return gamma, counted


def _check_units(run: Fields, drafts: int, accepted: int, drafted: int, rates: list[float]) -> None:
    expected = accepted / drafts
    total = math.fsum(rates)
    if abs(total - expected) > TOLERANCE * max(1.0, expected):
        raise run.wrong(
            RATES,
            f"{total:.4g} in sum",
            f"{expected:.4g}, accepted / drafts, as fractions (not percent, not by rank)",
        )
    stated = run.maybe_number("spec_decode_acceptance_rate")
    percent = 100.0 * accepted / drafted if drafted else 0.0
    if stated is not None and abs(stated - percent) > TOLERANCE * max(1.0, percent):
        raise run.wrong("spec_decode_acceptance_rate", f"{stated:g}", f"{percent:.4g} (percent)")
    length = run.maybe_number("spec_decode_acceptance_length")
    if length is not None and abs(length - 1.0 - expected) > TOLERANCE * (1.0 + expected):
        raise run.wrong(
            "spec_decode_acceptance_length", f"{length:g}", f"{1.0 + expected:.4g}, bonus included"
        )


def _record(
    name: str, gamma: int, runs: list[dict[str, int]], options: ImportOptions
) -> CountedRecord:
    total = {key: sum(run[key] for run in runs) for key in runs[0]}
    cycles = total["drafts"] if options.always_drafts else max(total["steps"], total["drafts"])
    positions = [total[f"position {k}"] for k in range(gamma)]
    counts = make_counts(
        name,
        num_drafts=total["drafts"],
        num_draft_tokens=total["drafted"],
        num_accepted_tokens=total["accepted"],
        num_cycles=cycles,
        accepted_per_position=positions,
    )
    return CountedRecord(
        kind="position_counters",
        scope="difference",
        counts={gamma: counts},
        num_requests=total["requests"],
    )


def _chunks(run: Fields) -> dict[str, float]:
    """A chunk holds a cycle's tokens: a check of the acceptance length by time alone."""
    gap, per_token = run.maybe_number("mean_itl_ms"), run.maybe_number("mean_tpot_ms")
    return {"tokens a chunk, by ITL / TPOT": gap / per_token} if gap and per_token else {}


def _notes(runs: list[Fields], plain: int) -> tuple[str, ...]:
    notes = []
    if plain:
        notes.append(f"{plain} runs without speculation were left out.")
    failed = sum(run.maybe_count("failed") or 0 for run in runs)
    if failed:
        notes.append(f"{failed} requests failed; their drafts are counted all the same.")
    if any(run.values.get("dataset_name") == "random" for run in runs):
        notes.append("Random prompts: their acceptance says nothing about real text.")
    steps = [(run.maybe_count("total_output_tokens") or 0) - run.count(KEYS[1]) for run in runs]
    if any(run.count(KEYS[0]) > left for run, left in zip(runs, steps, strict=True)):
        notes.append(
            "More drafts than decode steps: the server had other traffic too, or outputs were so "
            "short that cutting them shows."
        )
    return tuple(notes)


IMPORTER = Importer(
    written_for="vLLM 0.32",
    gives="position counters of a benchmark run; latencies are shown",
    recognises=recognises,
    read=read,
)
