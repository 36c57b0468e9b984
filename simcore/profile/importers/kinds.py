"""The kinds of files that can be imported, and how a file's own is recognised."""

from simcore.errors import EngineFileError
from simcore.profile.importers import (
    acceptance_trace,
    aiperf,
    guidellm,
    llamacpp_log,
    llamacpp_prometheus,
    llamacpp_timings,
    sglang_bench,
    sglang_log,
    sglang_meta_info,
    step_cost_csv,
    trtllm_prometheus,
    trtllm_stats,
    vllm_bench,
    vllm_log,
    vllm_prometheus,
    vllm_requests,
)
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading

IMPORTERS: dict[str, Importer] = {
    "vllm_prometheus": vllm_prometheus.IMPORTER,
    "vllm_log": vllm_log.IMPORTER,
    "vllm_bench": vllm_bench.IMPORTER,
    "vllm_requests": vllm_requests.IMPORTER,
    "sglang_log": sglang_log.IMPORTER,
    "sglang_meta_info": sglang_meta_info.IMPORTER,
    "sglang_bench": sglang_bench.IMPORTER,
    "trtllm_stats": trtllm_stats.IMPORTER,
    "trtllm_prometheus": trtllm_prometheus.IMPORTER,
    "llamacpp_timings": llamacpp_timings.IMPORTER,
    "llamacpp_log": llamacpp_log.IMPORTER,
    "llamacpp_prometheus": llamacpp_prometheus.IMPORTER,
    "guidellm": guidellm.IMPORTER,
    "aiperf": aiperf.IMPORTER,
    "acceptance_trace": acceptance_trace.IMPORTER,
    "step_cost_csv": step_cost_csv.IMPORTER,
}
AUTO = "auto"
METRICS_PAGES = {  # how their lines begin
    "vllm:": "vLLM",
    "sglang:": "SGLang",
    "trtllm_": "TensorRT-LLM",
    "llamacpp:": "llama.cpp",
}
COUNTED_WHILE_DRAFTING = (
    "a recent engine counts them while it speculates: serve with speculation on, send requests, "
    "and scrape again"
)
COUNTED_ELSEWHERE = {
    "SGLang": "it states means alone, which give no survival: import the meta_info of its answers"
}


def read_files(kind: str, files: list[EngineFile], options: ImportOptions) -> tuple[str, Reading]:
    """(kind, what it understood) of files of one kind. Raises EngineFileError."""
    if kind == AUTO:
        kinds = {recognise(file) for file in files}
        if len(kinds) > 1:
            raise EngineFileError(
                f"the files are of {', '.join(sorted(kinds))}; import them one kind at a time"
            )
        kind = kinds.pop()
    if kind not in IMPORTERS:
        raise EngineFileError(f"no kind {kind!r}; expected {AUTO} or one of {', '.join(IMPORTERS)}")
    return kind, IMPORTERS[kind].read(files, options)


def recognise(file: EngineFile) -> str:
    """The one kind that the file is of. Raises EngineFileError where it is none or several."""
    if file.content.startswith(acceptance_trace.PARQUET_MAGIC):
        return "acceptance_trace"  # the only kind that is no text
    found = [kind for kind, each in IMPORTERS.items() if each.recognises(file)]
    if not found:
        _refuse_metrics_page(file)
    if len(found) != 1:
        which = f"looks like {' and '.join(found)}" if found else "is of no known kind"
        raise EngineFileError(f"{file.name} {which}; name its kind: {', '.join(IMPORTERS)}")
    return found[0]


def _refuse_metrics_page(file: EngineFile) -> None:
    """An engine's metrics without the counters of speculation have a sentence of their own."""
    for prefix, engine in METRICS_PAGES.items():
        if f"\n{prefix}" in "\n" + file.text:
            raise EngineFileError(
                f"{file.name} is a metrics page of {engine} without counts of drafts by position; "
                f"{COUNTED_ELSEWHERE.get(engine, COUNTED_WHILE_DRAFTING)}"
            )
