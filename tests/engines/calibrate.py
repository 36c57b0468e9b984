"""Calibrate: closed batches on prompts of their own, imported as one profile a proposer.

Cost samples are the engine's own times at every token of one request of the batch. A lookup in
periodic text always drafts, and its search costs next to nothing: its steps time the target's
pass over 1 + γ tokens a request, and what the same batch takes more with a draft model is the
drafting. Synthetic rates of 1 accept everything, so that every step is alike. Acceptance is
counted by the engine's /metrics around a run of real prompts.
"""

import json
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from simcore.profile.importers import ImportOptions, open_files, read_files
from simcore.profile.merge import merge, write_merge
from simcore.profile.schema import Engine, Hardware, Identity, ModelIdentity, Sampling
from tests.engines.client import Answer, Prompt, run_load, scrape
from tests.engines.server import ServerSetup, serve
from tests.engines.studies import Condition, Study, models, prompt_texts

PERIOD_IDS = (100, 101, 102, 103, 104, 105, 106, 107)
FORCE = 50.0  # logit bias that no logit of these models reaches
SETTLED = 5  # steps left out at either end: others still prefill, or have ended
PREFILL_REPEATS = 5
ENGINE_VERSION = "xllamacpp 2026.10.11549"


def calibrate(study: Study, folder: Path) -> None:
    """Measure and write `folder`: the samples, one profile a proposer, and calibration.json."""
    folder.mkdir(parents=True, exist_ok=True)
    delays: list[float] = []
    timed = {"off": list(_timed_cells(study, "off", delays))}
    for kind in ("ngram", "draft_model"):
        if kind == "ngram" or kind in study.kinds():
            timed[kind] = list(_timed_cells(study, kind, delays))
    scrapes = _scrapes(study, folder)
    for kind in study.kinds():
        samples = _samples(timed, kind)
        _write_profile(study, kind, samples, scrapes, folder)
    facts = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "python -m tests.engines calibrate " + study.name,
        "engine": ENGINE_VERSION,
        "prompts": "those of even index",
        "answering_delay_s": float(np.median(delays)),
    }
    (folder / "calibration.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


# --- step cost ----------------------------------------------------------------------------------


def _timed_cells(study: Study, kind: str, delays: list[float]) -> Iterator[dict[str, object]]:
    for gamma in study.gammas if kind != "off" else (0,):
        setup = _closed_setup(study, kind, gamma)
        with serve(setup) as address:
            if kind != "ngram":
                yield from _prefills(study, address, kind, gamma, delays)
            for context in study.contexts:
                for batch_size in range(1, study.num_slots + 1):
                    answers = _closed_batch(address, batch_size, context, gamma, study.steps)
                    yield _cell(kind, batch_size, gamma, answers[0])


def _closed_setup(study: Study, kind: str, gamma: int) -> ServerSetup:
    condition = Condition("closed", kind, gamma, (1.0,) * gamma)
    setup = study.setup(condition)
    return ServerSetup(**{**vars(setup), "match_tokens": 1})


def _closed_batch(
    address: str, batch_size: int, context: int, gamma: int, steps: int
) -> list[Answer]:
    """A batch of requests alike: periodic text, whose next token the sampler is made to choose."""
    period = PERIOD_IDS[: gamma + 1]
    text = period * (context // len(period) + 1)
    prompt = Prompt(
        text[: len(period) * max(1, round(context / len(period)))],
        1 + (steps + 2 * SETTLED) * (gamma + 1),
        seed=0,
        extra={"timings_per_token": True, "logit_bias": [[period[-1], FORCE]]},
    )
    return run_load(address, [prompt] * batch_size, [0.0] * batch_size)


def _cell(kind: str, batch_size: int, gamma: int, answer: Answer) -> dict[str, object]:
    """Quantiles of the steps in the middle of one request, by the engine's clock."""
    drafted = answer.timings.get("draft_n", 0)
    expected = answer.output_tokens - 1 - answer.output_tokens // (gamma + 1) if gamma else 0
    if drafted < expected:
        raise RuntimeError(f"{kind}, γ {gamma}: {drafted} drafts, expected {expected}")
    times_ms = np.unique([each["predicted_ms"] for each in answer.by_token])
    steps_s = np.array([(b - a) / 1e3 for a, b in pairwise(times_ms)])[SETTLED:-SETTLED]
    return {
        "kind": kind,
        "batch_size": batch_size,
        "gamma": gamma,
        "context_tokens": int(answer.timings["prompt_n"]) + answer.output_tokens // 2,
        **_quantiles(steps_s),
    }


def _prefills(
    study: Study, address: str, kind: str, gamma: int, delays: list[float]
) -> Iterator[dict[str, object]]:
    """One prompt at a time: the engine's time for it, and how much later the client saw it."""
    if gamma > study.gammas[0]:
        return
    rng = np.random.default_rng(study.seed)
    for tokens in study.prefills:
        prompt = Prompt(tuple(int(i) for i in rng.integers(1, 1000, tokens)), 2, seed=0)
        answers = [run_load(address, [prompt], [0.0])[0] for _ in range(PREFILL_REPEATS)]
        seconds = np.array([each.timings["prompt_ms"] / 1e3 for each in answers])
        if kind == "off":
            delays += [each.ttft_s - s for each, s in zip(answers, seconds, strict=True)]
        yield {"kind": kind, "batch_size": 1, "prefill": tokens, **_quantiles(seconds)}


def _quantiles(seconds: np.ndarray) -> dict[str, object]:
    p10, median, p90 = np.quantile(seconds, (0.1, 0.5, 0.9))
    least = float(seconds.min())
    return {
        "median_s": float(median),
        "p10_s": float(p10),
        "p90_s": float(p90),
        "min_s": least,
        "repeats": len(seconds),
    }


def _samples(timed: dict[str, list[dict[str, object]]], kind: str) -> pd.DataFrame:
    """Rows of docs/importers.md's step_cost_csv for a profile of this proposer."""
    rows = [_target_row(cell) for cell in (*timed["off"], *timed["ngram"])]
    if kind == "draft_model":
        rows += _drafting_rows(timed)
    return pd.DataFrame(rows)


def _target_row(cell: dict[str, object]) -> dict[str, object]:
    prefill = cell.get("prefill")
    return {
        "phase": "target",
        "proposer": "",
        "batch_size": cell["batch_size"],
        "num_query_tokens": prefill or 1 + cell["gamma"],
        "context_tokens": 0 if prefill else cell["context_tokens"],
        "num_speculative_tokens": 0 if prefill else cell["gamma"],
        **_times(cell),
    }


def _drafting_rows(timed: dict[str, list[dict[str, object]]]) -> Iterator[dict[str, object]]:
    """What a step with the draft model takes beyond the same step without."""
    without = {_shape(cell): cell for cell in (*timed["off"], *timed["ngram"])}
    for cell in timed["draft_model"]:
        more = _times(cell)
        base = _times(without[_shape(cell)])
        for name in ("median_s", "p10_s", "p90_s", "min_s"):
            more[name] = max(more[name] - base["median_s"], 1e-7)
        prefill = cell.get("prefill")
        yield {
            "phase": "propose",
            "proposer": "draft_model",
            "batch_size": cell["batch_size"],
            "num_query_tokens": prefill or 1,
            "context_tokens": 0 if prefill else cell["context_tokens"],
            "num_speculative_tokens": 0 if prefill else cell["gamma"],
            **more,
        }


def _shape(cell: dict[str, object]) -> tuple[object, ...]:
    return (
        cell["batch_size"],
        cell.get("prefill"),
        cell.get("gamma"),
        cell.get("context_tokens"),
    )


def _times(cell: dict[str, object]) -> dict[str, object]:
    return {key: cell[key] for key in ("median_s", "p10_s", "p90_s", "min_s", "repeats")}


# --- acceptance ---------------------------------------------------------------------------------


def _scrapes(study: Study, folder: Path) -> dict[str, tuple[Path, Path, int]]:
    """Condition -> /metrics before and after its calibration prompts, and how many they were."""
    found = {}
    for condition in study.conditions:
        if condition.kind == "off":
            continue
        with serve(study.setup(condition)) as address:
            ids = token_ids(study, address)[::2]
            before = scrape(address)
            low, high = study.prompt_tokens
            prompts = [
                Prompt(tuple(each[-high:]), study.calibration_output_tokens, seed)
                for seed, each in enumerate(ids)
                if len(each) >= low
            ]
            for first in range(0, len(prompts), study.num_slots):
                batch = prompts[first : first + study.num_slots]
                run_load(address, batch, [0.0] * len(batch))
            paths = []
            for when, text in (("before", before), ("after", scrape(address))):
                path = folder / f"{condition.name}_{when}.prom"
                path.write_text(text, encoding="utf-8")
                paths.append(path)
            found[condition.name] = (*paths, len(prompts))
    return found


def token_ids(study: Study, address: str) -> list[list[int]]:
    """Every prompt as token ids, by the engine's own tokenizer."""
    return [
        each if isinstance(each, list) else _tokenize(address, each)
        for each in prompt_texts(study.name)
    ]


def _tokenize(address: str, text: str) -> list[int]:
    body = json.dumps({"content": text, "parse_special": True}).encode()
    request = urllib.request.Request(
        address + "/tokenize", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())["tokens"]


# --- the profile --------------------------------------------------------------------------------


def _write_profile(
    study: Study,
    kind: str,
    samples: pd.DataFrame,
    scrapes: dict[str, tuple[Path, Path, int]],
    folder: Path,
) -> None:
    """Import each condition's counters, then the samples: what `specplan import` would do."""
    csv = folder / f"{kind}_steps.csv"
    samples.to_csv(csv, index=False)
    profile = folder / kind
    into = None
    for condition in study.conditions:
        if condition.kind != kind:
            continue
        before, after, count = scrapes[condition.name]
        said = ImportOptions(
            domain=condition.domain,
            proposer=kind,
            proposer_kind=kind,
            gamma=condition.gamma,
            sampling=Sampling(temperature=0.0),
            engine_version=ENGINE_VERSION,
            num_requests=count,
        )
        _import("llamacpp_prometheus", [before, after], said, profile, into, _identity(study))
        into = str(profile)
    said = ImportOptions(proposer=kind, proposer_kind=kind)
    _import("step_cost_csv", [csv], said, profile, into)


def _import(
    kind: str,
    paths: Sequence[Path],
    options: ImportOptions,
    folder: Path,
    into: str | None = None,
    identity: Identity | None = None,
) -> None:
    _, reading = read_files(kind, open_files(list(paths)), options)
    merged = merge(
        reading,
        options,
        name=f"{folder.parent.name}_{folder.name}",
        date=datetime.now(UTC).date().isoformat(),
        files=tuple(path.name for path in paths),
        into=into,
        identity=identity,
    )
    write_merge(merged, folder)


def _identity(study: Study) -> Identity:
    target, _ = models(study.name)
    facts = {
        "tiny": ("tiny-target", 3_690_000, "none", 2048, 4 * 2 * 256 * 2),
        "smollm2": ("SmolLM2-135M-Instruct", 134_515_008, "Q4_0", 49_152, 30 * 2 * 192 * 2),
    }
    name, parameters, coding, vocab, kv_bytes = facts[study.name]
    return Identity(
        target=ModelIdentity(
            name=name,
            revision=f"{target.name}, {target.stat().st_size} bytes",
            num_parameters=parameters,
            dtype="float32",
            quantization=coding,
            tokenizer="byte-level BPE of the model",
            vocab_size=vocab,
            weight_bytes=target.stat().st_size,
            kv_bytes_per_token=kv_bytes,
        ),
        hardware=Hardware(
            device="cpu", name="one core of a CPU", memory_bytes=8_000_000_000, threads=1
        ),
        engine=Engine(
            name="llama.cpp server",
            version=ENGINE_VERSION,
            settings={"python": sys.version.split()[0], "threads": "1"},
        ),
    )
