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
LEAST_SHARE = 0.02
ENGINE_VERSION = "xllamacpp 2026.10.11549"


def calibrate(study: Study, folder: Path) -> None:
    """Measure, and write what the engine said to `folder`: samples, scrapes, calibration.json."""
    folder.mkdir(parents=True, exist_ok=True)
    delays: list[float] = []
    timed = {"off": list(_timed_cells(study, "off", delays))}
    for kind in ("ngram", "draft_model"):
        if kind == "ngram" or kind in study.kinds():
            timed[kind] = list(_timed_cells(study, kind, delays))
    for kind in study.kinds():
        _samples(timed, kind).to_csv(folder / f"{kind}_steps.csv", index=False)
    facts = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "python -m tests.engines calibrate " + study.name,
        "engine": ENGINE_VERSION,
        "prompts": "those of even index",
        "num_prompts": _count_acceptance(study, folder),
        "answering_delay_s": float(np.median(delays)),
    }
    (folder / "calibration.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def import_profiles(study: Study, folder: Path) -> None:
    """One profile a proposer, from the calibration's files: what `specplan import` would do."""
    count = json.loads((folder / "calibration.json").read_text(encoding="utf-8"))["num_prompts"]
    for kind in study.kinds():
        profile, into = folder / kind, None
        for condition in study.conditions:
            if condition.kind != kind:
                continue
            said = ImportOptions(
                domain=condition.domain,
                proposer=kind,
                proposer_kind=kind,
                gamma=condition.gamma,
                sampling=Sampling(temperature=0.0),
                engine_version=ENGINE_VERSION,
                num_requests=count,
            )
            scrapes = [folder / f"{condition.name}_{when}.prom" for when in ("before", "after")]
            _import("llamacpp_prometheus", scrapes, said, profile, into, _identity(study))
            into = str(profile)
        said = ImportOptions(proposer=kind, proposer_kind=kind)
        _import("step_cost_csv", [folder / f"{kind}_steps.csv"], said, profile, into)


# --- step cost ----------------------------------------------------------------------------------


def _timed_cells(study: Study, kind: str, delays: list[float]) -> Iterator[dict[str, object]]:
    """Every cell of one kind of server; its rounds are passes over all cells, pooled."""
    for gamma in study.gammas if kind != "off" else (0,):
        pooled: dict[tuple[object, ...], list[tuple[dict[str, object], np.ndarray]]] = {}
        with serve(_closed_setup(study, kind, gamma)) as address:
            for _ in range(study.rounds):
                for cell, seconds in _one_round(study, address, kind, gamma, delays):
                    pooled.setdefault(_shape(cell), []).append((cell, seconds))
        for parts in pooled.values():
            yield parts[0][0] | _quantiles(np.concatenate([seconds for _, seconds in parts]))


def _one_round(
    study: Study, address: str, kind: str, gamma: int, delays: list[float]
) -> Iterator[tuple[dict[str, object], np.ndarray]]:
    if kind != "ngram" and gamma in (0, study.gammas[0]):
        yield from _prefills(study, address, kind, delays)
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


def _cell(
    kind: str, batch_size: int, gamma: int, answer: Answer
) -> tuple[dict[str, object], np.ndarray]:
    """The cell, and seconds of the steps in the middle of one request by the engine's clock."""
    drafted = answer.timings.get("draft_n", 0)
    expected = answer.output_tokens - 1 - answer.output_tokens // (gamma + 1) if gamma else 0
    if drafted < expected:
        raise RuntimeError(f"{kind}, γ {gamma}: {drafted} drafts, expected {expected}")
    times_ms = np.unique([each["predicted_ms"] for each in answer.by_token])
    steps_s = np.array([(b - a) / 1e3 for a, b in pairwise(times_ms)])[SETTLED:-SETTLED]
    cell = {
        "kind": kind,
        "batch_size": batch_size,
        "gamma": gamma,
        "context_tokens": int(answer.timings["prompt_n"]) + answer.output_tokens // 2,
    }
    return cell, steps_s


def _prefills(
    study: Study, address: str, kind: str, delays: list[float]
) -> Iterator[tuple[dict[str, object], np.ndarray]]:
    """One prompt at a time: the engine's time for it, and how much later the client saw it."""
    rng = np.random.default_rng(study.seed)
    for tokens in study.prefills:
        prompt = Prompt(tuple(int(i) for i in rng.integers(1, 1000, tokens)), 2, seed=0)
        answers = [run_load(address, [prompt], [0.0])[0] for _ in range(PREFILL_REPEATS)]
        seconds = np.array([each.timings["prompt_ms"] / 1e3 for each in answers])
        if kind == "off":
            delays += [each.ttft_s - s for each, s in zip(answers, seconds, strict=True)]
        yield {"kind": kind, "batch_size": 1, "prefill": tokens}, seconds


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
    """Rows of docs/reference/importers.md's step_cost_csv for a profile of this proposer."""
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
            # Less than this of a step the clock cannot tell; relative errors would blow it up.
            more[name] = max(more[name] - base["median_s"], LEAST_SHARE * base["median_s"])
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


def _count_acceptance(study: Study, folder: Path) -> int:
    """Scrape /metrics before and after the calibration's prompts, under every condition.

    Returns how many prompts they were.
    """
    prompts: list[Prompt] = []
    for condition in study.conditions:
        if condition.kind == "off":
            continue
        with serve(study.setup(condition)) as address:
            low, high = study.prompt_tokens
            prompts = [
                Prompt(tuple(each[-high:]), study.calibration_output_tokens, seed)
                for seed, each in enumerate(token_ids(study, address)[::2])
                if len(each) >= low
            ]
            (folder / f"{condition.name}_before.prom").write_text(scrape(address), encoding="utf-8")
            for first in range(0, len(prompts), study.num_slots):
                batch = prompts[first : first + study.num_slots]
                run_load(address, batch, [0.0] * len(batch))
            (folder / f"{condition.name}_after.prom").write_text(scrape(address), encoding="utf-8")
    return len(prompts)


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
