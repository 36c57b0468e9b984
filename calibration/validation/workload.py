"""The validation's requests: prompts that the calibration never saw, with lengths of their own."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from calibration.contracts.named import contract_named
from calibration.errors import CalibrationError
from calibration.model.target import LoadedModel
from calibration.promptset import Prompt, prompt_token_ids, read_prompts
from calibration.serve.request import ServedRequest
from calibration.serve.run import serve
from calibration.serve.service import Service
from calibration.validation.plan import OFF, Plan
from calibration.validation.questions import DATA_SETS, Question, check_disjoint, read_questions
from calibration.validation.rows import Row

MAX_PROMPT_TOKENS = 200
OUTPUT_TOKENS = (16, 64)  # the limit of a request is drawn from this range
EVERY_PROMPT = 1_000_000
Prompts = list[tuple[int, ...]]  # token ids


def make_rows(plan: Plan, data: Path, target: LoadedModel, count: int, seed: int) -> list[Row]:
    """`count` requests in order of arrival; the target is asked where its texts end.

    Raises CalibrationError where prompts are missing, or shared with the calibration's.
    """
    if count < 1:
        raise CalibrationError(f"requests is {count}; expected at least 1")
    chosen = _short_enough(read_questions(data), target, count)
    shipped = read_prompts(None, EVERY_PROMPT)
    calibrated = [prompt.text for prompts in shipped.values() for prompt in prompts]
    check_disjoint([question.text for question, _ in chosen], calibrated)
    rng = np.random.default_rng(seed)
    limits = rng.integers(OUTPUT_TOKENS[0], OUTPUT_TOKENS[1] + 1, size=count)
    arrivals_s = np.append(0.0, np.cumsum(rng.exponential(size=count - 1)))
    rows = [
        Row(
            source=question.source,
            number=question.number,
            domain=DATA_SETS[question.source].domain,
            prompt_sha256=question.sha256,
            prompt_tokens=len(ids),
            output_tokens=int(limit),
            arrival_s=round(float(arrival_s), 6),
        )
        for (question, ids), limit, arrival_s in zip(chosen, limits, arrivals_s, strict=True)
    ]
    return _with_recorded_lengths(plan, rows, [ids for _, ids in chosen], target)


def prompts_of(rows: Sequence[Row], data: Path, target: LoadedModel) -> Prompts:
    """Every row's prompt; refuses texts that are not those that were recorded."""
    by_hash = {question.sha256: question for question in read_questions(data)}
    prompts = []
    for row in rows:
        question = by_hash.get(row.prompt_sha256)
        ids = () if question is None else token_ids(question, target)
        if len(ids) != row.prompt_tokens:
            raise CalibrationError(
                f"prompt {row.number} of {row.source} is not the one that was recorded; expected "
                "the same files and tokenizer: make the workload and its prediction anew"
            )
        prompts.append(ids)
    return prompts


def requests_of(rows: Sequence[Row], prompts: Prompts, rate_per_s: float) -> list[ServedRequest]:
    """The requests at a rate; limits are lengths, for no end token is to end anything."""
    return [
        ServedRequest(ids, row.output_tokens, row.arrival_s / rate_per_s, domain=row.domain)
        for row, ids in zip(rows, prompts, strict=True)
    ]


def without_end(target: LoadedModel) -> LoadedModel:
    """A target whose texts end at their limit alone, so that on and off emit as much."""
    return replace(target, eos_token_ids=frozenset())


def _with_recorded_lengths(
    plan: Plan, rows: list[Row], prompts: Prompts, target: LoadedModel
) -> list[Row]:
    """Limits lowered to where the target ends its text by itself; decoded plainly, once."""
    requests = [
        ServedRequest(ids, row.output_tokens) for row, ids in zip(rows, prompts, strict=True)
    ]
    service = Service(plan.scenario(OFF), requests, target, None)
    texts = serve(service, contract_named("greedy", is_chain=True)).texts
    return [
        replace(row, output_tokens=len(text.output_ids))
        for row, text in zip(rows, texts, strict=True)
    ]


def _short_enough(
    questions: Sequence[Question], target: LoadedModel, count: int
) -> list[tuple[Question, tuple[int, ...]]]:
    def found() -> Iterator[tuple[Question, tuple[int, ...]]]:
        for question in questions:
            ids = token_ids(question, target)
            if len(ids) <= MAX_PROMPT_TOKENS:
                yield question, ids

    chosen = [pair for pair, _ in zip(found(), range(count), strict=False)]
    if len(chosen) < count:
        raise CalibrationError(
            f"{len(chosen)} prompts of at most {MAX_PROMPT_TOKENS} tokens; expected {count}: ask "
            "for fewer requests"
        )
    return chosen


def token_ids(question: Question, target: LoadedModel) -> tuple[int, ...]:
    """The question through the target's chat template."""
    assert target.tokenizer is not None  # read from a folder or a file
    return tuple(prompt_token_ids(Prompt("any", question.text), target.tokenizer))
