"""Detail files of `vllm bench serve --save-detailed` and SGLang's bench_serving."""

from typing import Any

import numpy as np
import pyarrow as pa

from simcore.errors import ScenarioError
from simcore.workload.files.json_objects import first_object, list_of, number_of
from simcore.workload.files.rows import FloatArray, request_table
from simcore.workload.files.source import Source

LENGTH_KEYS = ("input_lens", "output_lens")
TIME_KEY = "start_times"


def read_bench_detail(source: Source) -> pa.Table:
    """Requests of one benchmark run, in order of their start where the file states it."""
    run, rest = first_object(source)
    if rest.strip():
        raise ScenarioError(
            f"{source.name} holds more than one run; expected one: keep the line of that run"
        )
    if missing := [key for key in LENGTH_KEYS if key not in run]:
        raise ScenarioError(
            f"{source.name} has no {missing[0]!r}; write it with --save-detailed (vLLM) or "
            "--output-details (SGLang)"
        )
    keys = (*LENGTH_KEYS, TIME_KEY) if run.get(TIME_KEY) is not None else LENGTH_KEYS
    columns = [_numbers(source.name, key, run[key]) for key in keys]
    if len({len(column) for column in columns}) != 1:
        counts = ", ".join(
            f"{len(column)} {key}" for key, column in zip(keys, columns, strict=True)
        )
        raise ScenarioError(f"{source.name} holds {counts}; expected one of each a request")
    prompt, output, *times = columns
    if not times:
        return request_table(source.name, prompt_tokens=prompt, output_tokens=output)
    return _in_order(source.name, times[0], prompt, output)


def _in_order(name: str, start_s: FloatArray, prompt: FloatArray, output: FloatArray) -> pa.Table:
    """The file lists requests as they were issued; under a concurrency limit starts may cross."""
    order = np.argsort(start_s, kind="stable")
    return request_table(
        name,
        arrival_s=start_s[order],
        prompt_tokens=prompt[order],
        output_tokens=output[order],
    )


def _numbers(name: str, key: str, value: Any) -> FloatArray:
    values = list_of(name, key, value)
    return np.array(
        [number_of(f"{name}, row {row}", key, each) for row, each in enumerate(values, start=1)]
    )
