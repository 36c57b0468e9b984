"""A llama.cpp server from the engine's own environment: started, awaited, stopped for certain."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]
ENGINE_PYTHON = ROOT / ".venv-engines" / "bin" / "python"
SERVE = Path(__file__).parent / "llamacpp_serve.py"
Kind = Literal["off", "draft_model", "ngram"]
TYPES = {
    "off": "COMMON_SPECULATIVE_TYPE_NONE",
    "draft_model": "COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE",
    "ngram": "COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE",
}
STOP_S = 20.0


@dataclass(frozen=True)
class ServerSetup:
    """One server: its models and how it speculates. One thread computes."""

    target: Path
    kind: Kind = "off"
    draft: Path | None = None
    gamma: int = 0
    synth_rates: tuple[float, ...] = ()  # unconditional survival by position; empty: real
    match_tokens: int = 3  # of an n-gram; a lookup that finds fewer drafts than these makes none
    num_slots: int = 4
    slot_tokens: int = 512
    loop_core: int | None = None  # None: wherever the system puts it
    other_cores: tuple[int, ...] = ()

    def params(self) -> dict[str, object]:
        """llama.cpp's settings by dotted name. No prompt is found again: each is computed."""
        settings: dict[str, object] = {
            "model.path": str(self.target),
            "n_parallel": self.num_slots,
            "n_ctx": self.num_slots * self.slot_tokens,
            "endpoint_metrics": True,
            "cache_ram_mib": 0,
            "verbosity": 1,
            "cpuparams.n_threads": 1,
            "cpuparams_batch.n_threads": 1,
            "speculative.types": [TYPES[self.kind]],
        }
        if self.kind == "draft_model":
            settings |= {
                "speculative.draft.mparams.path": str(self.draft),
                "speculative.draft.n_max": self.gamma,
                "speculative.draft.cpuparams.n_threads": 1,
                "speculative.draft.cpuparams_batch.n_threads": 1,
            }
        if self.kind == "ngram":
            settings |= {
                "speculative.ngram_simple.size_n": self.match_tokens,
                "speculative.ngram_simple.size_m": self.gamma,
            }
        if self.synth_rates:
            settings["speculative.synth_rates"] = list(self.synth_rates)
        return settings


def has_engine() -> bool:
    """Whether the engine's environment is there (`make .venv-engines/.done`)."""
    return ENGINE_PYTHON.exists()


@contextmanager
def serve(setup: ServerSetup) -> Iterator[str]:
    """The address of a ready server; gone when the block ends, however it ends."""
    settings = {
        "params": setup.params(),
        "loop_core": setup.loop_core,
        "other_cores": setup.other_cores,
    }
    with tempfile.TemporaryDirectory() as work:
        config, log = Path(work) / "settings.json", Path(work) / "log.txt"
        config.write_text(json.dumps(settings), encoding="utf-8")
        # Spinning OpenMP threads slow whatever else runs.
        environment = os.environ | {"GOMP_SPINCOUNT": "1000", "OMP_NUM_THREADS": "1"}
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [ENGINE_PYTHON, SERVE, config],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                text=True,
            )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                said = log.read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"the server did not start: {said[-2000:]}")
            yield address
        finally:
            _stop(process)


def _stop(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
