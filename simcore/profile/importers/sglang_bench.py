"""SGLang's bench_serving JSONL: one object a run; bare Infinity is really written.

Written for SGLang 0.5.18. `accept_length` is the mean since the server's start, of one rank, and
no count stands beside it: it is shown, and nothing can be stored.
"""

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.json_fields import Fields, first_object, objects
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading

FIGURES = {
    "mean_ttft_ms": "mean TTFT, ms",
    "mean_tpot_ms": "mean TPOT, ms",
    "mean_itl_ms": "mean gap, split over a chunk's tokens, ms",
    "output_throughput": "output tokens/s",
}
SAME = 0.25  # relative; a gap over tokens and TPOT differ by rounding and the first token


def recognises(file: EngineFile) -> bool:
    """Whether the first object is such a run."""
    first = first_object(file)
    return "accept_length" in first and "mean_tpot_ms" in first


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Figures only. Raises EngineFileError."""
    runs = [run for file in files for run in objects(file)]
    if not any(run.has("accept_length") or run.has("mean_tpot_ms") for run in runs):
        raise EngineFileError(
            f"{files[0].name} has no accept_length; expected runs of bench_serving"
        )
    figures: dict[str, float] = {}
    notes = [
        "accept_length is the server's lifetime mean of one rank, earlier runs included, and no "
        "counts stand beside it: a mean alone gives no survival. Import meta_info of the answers."
    ]
    for number, run in enumerate(runs, start=1):
        prefix = f"run {number}: " if len(runs) > 1 else ""
        length = run.maybe_number("accept_length")
        if length is not None:
            _check_length(run, length, options.gamma)
            figures[f"{prefix}mean acceptance length, bonus included"] = length
            figures |= _step(run, length, prefix)
        figures |= {prefix + text: run.number(key) for key, text in FIGURES.items() if run.has(key)}
        notes += _notes(run, prefix)
    return Reading(engine="SGLang", figures=figures, notes=tuple(notes))


def _check_length(run: Fields, length: float, gamma: int | None) -> None:
    if length < 1.0 or (gamma is not None and length > gamma + 1.0):
        raise run.wrong(
            "accept_length", f"{length:g}", f"1 to {'γ' if gamma is None else gamma} + 1"
        )


def _step(run: Fields, length: float, prefix: str) -> dict[str, float]:
    per_token = run.maybe_number("mean_tpot_ms")
    return {} if per_token is None else {f"{prefix}step by length × TPOT, ms": length * per_token}


def _notes(run: Fields, prefix: str) -> list[str]:
    notes = []
    if run.values.get("dataset_name") == "random":
        notes.append(f"{prefix}random prompts: their acceptance says nothing about real text.")
    gap, per_token = run.maybe_number("mean_itl_ms"), run.maybe_number("mean_tpot_ms")
    if gap and per_token and abs(gap / per_token - 1.0) > SAME:
        notes.append(
            f"{prefix}ITL is {gap / per_token:.2f} times TPOT; this benchmark splits gaps over the "
            "tokens of a chunk, so an older version or another tool wrote it."
        )
    peak, mean = run.maybe_number("max_output_tokens_per_s"), run.maybe_number("output_throughput")
    if peak and mean and peak < mean:
        notes.append(f"{prefix}the peak rate counts chunks, not tokens: it lies under the mean.")
    return notes


IMPORTER = Importer(
    written_for="SGLang 0.5.18",
    gives="a lifetime mean and latencies, shown only",
    recognises=recognises,
    read=read,
)
