"""Acceptance recorded on other prompts of the data sets that are served.

Texts are decoded by the serving loop, plainly and together; what a proposer would have done at
every position of them follows from the text.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calibration.contracts.named import contract_named
from calibration.model.target import LoadedModel
from calibration.records import Decoding, Request, acceptance_record, plan_records, traces_table
from calibration.serve.request import ServedRequest
from calibration.serve.run import serve
from calibration.serve.service import Service
from calibration.validation.plan import OFF, Plan
from calibration.validation.questions import read_questions, word_runs
from calibration.validation.rows import Row
from calibration.validation.workload import MAX_PROMPT_TOKENS, Prompts, token_ids
from simcore.profile.store import StoredProfile, write_profile

PROMPTS_PER_SOURCE = 24
MAX_TOKENS = 64


def other_prompts(rows: Sequence[Row], data: Path, target: LoadedModel) -> dict[str, Prompts]:
    """By data set, prompts that are not served and share no passage with those that are."""
    served = {row.prompt_sha256 for row in rows}
    questions = read_questions(data)
    seen = {run for q in questions if q.sha256 in served for run in word_runs(q.text)}
    found: dict[str, Prompts] = {row.source: [] for row in rows}
    for question in questions:
        prompts = found.get(question.source)
        if prompts is None or len(prompts) == PROMPTS_PER_SOURCE:
            continue
        ids = token_ids(question, target)
        if len(ids) <= MAX_PROMPT_TOKENS and seen.isdisjoint(word_runs(question.text)):
            prompts.append(ids)
    return found


def profile_of_own_prompts(
    plan: Plan,
    prompts: dict[str, Prompts],
    decoding: Decoding,
    cost: StoredProfile,
    folder: Path,
) -> StoredProfile:
    """A profile of `cost`'s cost and the acceptance on these prompts, written to `folder`."""
    assert cost.cost_samples is not None
    max_gamma = max(plan.gammas.values())
    texts = _texts(plan, prompts, decoding.target, MAX_TOKENS + max_gamma)
    records = plan_records(tuple(decoding.proposing), list(prompts), (0.0,))
    luck = np.random.default_rng(0)  # greedy traces take no chance
    requests = {
        record.key: [
            Request(
                text,
                decoding.trace(record, ids, text, min(MAX_TOKENS, len(text)), max_gamma, luck),
                [],
                0,
            )
            for ids, text in zip(prompts[record.domain], texts[record.domain], strict=True)
        ]
        for record in records
    }
    first = cost.profile
    note = (
        "Acceptance is of other prompts of the data sets that are served: "
        + ", ".join(f"{len(own)} of {source}" for source, own in prompts.items())
        + "; the notes above are of the profile that the cost is from."
    )
    profile = first.model_copy(
        update={
            "name": f"{first.name}_own_prompts",
            "acceptance": tuple(
                acceptance_record(record, requests[record.key], max_gamma) for record in records
            ),
            "provenance": first.provenance.model_copy(
                update={"notes": (*first.provenance.notes, note)}
            ),
            "tables": {},
        }
    )
    samples = cost.cost_samples.to_pandas()
    return write_profile(profile, folder, cost=samples, traces=traces_table(requests))


def _texts(
    plan: Plan, prompts: dict[str, Prompts], target: LoadedModel, max_tokens: int
) -> dict[str, list[list[int]]]:
    """Greedy texts by data set, up to the target's own end."""
    requests = [ServedRequest(ids, max_tokens) for own in prompts.values() for ids in own]
    service = Service(plan.scenario(OFF), requests, target, None)
    served = serve(service, contract_named("greedy", is_chain=True))
    texts = iter(served.texts)
    return {source: [next(texts).output_ids for _ in own] for source, own in prompts.items()}
