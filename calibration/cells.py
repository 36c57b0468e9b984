"""Times steps of the serving loop over a grid of shapes: what is timed is what serves.

A bench is a closed batch of equal requests that the loop serves to their end. Its step records are
the timings: target pass, proposal and reconciliation by the engine's stopwatch, the scheduler's own
time as overhead. Once all prompts are read, every step drafts one of the grid's lengths, in an
order of its own. A proposer is asked as ever, but the target is shown whole chains of a token that
it never expects, so that every step of a shape scores as much and emits one token a request.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from calibration.contracts.named import contract_named
from calibration.grid import Cell, Grid, PrefillShape, Shape
from calibration.model.target import LoadedModel
from calibration.proposers.tree_protocol import Asked, Draft, PromptChunk, Reconciled, TreeProposer
from calibration.serve.proposing import Proposing
from calibration.serve.request import ServedRequest
from calibration.serve.run import serve
from calibration.serve.service import Service
from calibration.timing import OVERHEAD
from simcore.profile.schema import Sampling
from simcore.records import Record
from simcore.scenario import Scenario, parse_scenario
from simcore.serving.caller_policy import PolicyView

Timing = tuple[Cell, float]
VISITS = 2  # steps of every draft length while the caches of one bench are filled
BLOCK_SIZE = 16
UNEXPECTED = 0  # a model's first token is a marker of text boundaries, or at least rare


@dataclass(frozen=True)
class WholeChains:
    """Pays for a proposer's drafts and shows the target others, always as long as was asked."""

    proposer: TreeProposer

    @property
    def name(self) -> str:
        """The proposer's own."""
        return self.proposer.name

    def read(self, chunks: Sequence[PromptChunk]) -> None:
        """As the proposer does."""
        self.proposer.read(chunks)

    def propose(self, asked: Sequence[Asked], sampling: Sampling) -> list[Draft]:
        """Chains of the unexpected token."""
        self.proposer.propose(asked, sampling)
        return [
            Draft(tuple(range(-1, depth - 1)), (UNEXPECTED,) * depth)
            for depth in (one.topology.depth for one in asked)
        ]

    def reconcile(self, cycles: Sequence[Reconciled]) -> None:
        """As the proposer does."""
        self.proposer.reconcile(cycles)

    def learn(self, output_ids: Sequence[int]) -> None:
        """As the proposer does."""
        self.proposer.learn(output_ids)

    def forget(self, request: int) -> None:
        """As the proposer does."""
        self.proposer.forget(request)


@dataclass(frozen=True)
class Bench:
    """A closed batch: prompts of one length, a token budget a step, draft lengths by step."""

    target: LoadedModel
    text_ids: torch.Tensor  # [B, P] the prompts
    step_tokens: int  # of prefill in one step, whole batch
    gammas: tuple[int, ...] = ()  # of the decode steps; none: the prompts are read, no more
    proposer: str | None = None
    proposing: Proposing | None = None

    def time_once(self, seed: str) -> list[Timing]:
        """The timings of one run; `seed` orders the draft lengths."""
        order = random.Random(seed).sample(self.gammas * VISITS, len(self.gammas) * VISITS)
        # The step that reads the prompts takes a turn too; it drafts nothing.
        turns = iter([max(self.gammas, default=0), *order])
        served = serve(
            self._service(len(order)),
            contract_named("greedy", is_chain=True),
            policy=lambda view: _next(turns, view),
        )
        steps = served.records.steps.view(np.recarray)
        return [timing for step in steps for timing in self._timings(step)]

    def _service(self, num_steps: int) -> Service:
        batch, prompt_tokens = self.text_ids.shape
        longest = max(self.gammas, default=0)
        room_tokens = prompt_tokens + num_steps + 2 * longest + 2 * BLOCK_SIZE
        requests = [
            ServedRequest(tuple(row), max_tokens=1 + num_steps) for row in self.text_ids.tolist()
        ]
        speculates = self.proposing is not None
        # A bench that only reads prompts loads its proposer all the same: the draft reads along.
        drafts = {"proposer": self.proposer, "num_speculative_tokens": max(longest, 1)}
        scenario = _scenario(
            {
                "block_size": BLOCK_SIZE,
                "max_num_seqs": batch,
                "max_num_batched_tokens": max(self.step_tokens, batch * (1 + longest)),
                "kv_cache_tokens": 2 * batch * room_tokens,
                "prefix_caching": False,
            },
            drafts if speculates else {},
        )
        target = replace(self.target, eos_token_ids=frozenset())
        return Service(scenario, requests, target, self._whole_chains())

    def _whole_chains(self) -> Proposing | None:
        inner = self.proposing
        if inner is None:
            return None
        make = inner.make
        return replace(inner, make=lambda cache: WholeChains(make(cache)))

    def _timings(self, step: Record) -> list[Timing]:
        batch, prompt_tokens = self.text_ids.shape
        if step.num_decoding == 0:
            return self._prefill_timings(step)
        gamma = int(step.gamma)
        is_whole = step.num_decoding == batch and step.verified_tokens == batch * gamma
        if step.prefill_tokens or not is_whole:
            return []
        shape = (batch, gamma + 1, prompt_tokens, gamma)
        found = [
            (Cell("target", None, *shape), float(step.target_s)),
            (Cell("reconcile", None, *shape), float(step.reconcile_s)),
            (Cell(OVERHEAD, None, batch, 1, 0, 0), float(step.overhead_s)),
        ]
        if self.proposer is not None and gamma > 0:
            found.append((Cell("propose", self.proposer, *shape), float(step.propose_s)))
        return found

    def _prefill_timings(self, step: Record) -> list[Timing]:
        """Chunks of equal length, one of every running request; the draft reads them along."""
        running = int(step.num_running)
        shape = (running, int(step.prefill_tokens) // running, int(step.context_tokens) // running)
        found = [(Cell("target", None, *shape, 0), float(step.target_s))]
        if self.proposing is not None and self.proposing.draft is not None:
            found.append((Cell("propose", self.proposer, *shape, 0), float(step.propose_s)))
        return found


def prepare_benches(
    target: LoadedModel,
    proposing: Mapping[str, Proposing],
    grid: Grid,
    text_ids: Sequence[int],
) -> list[Bench]:
    """Every shape plainly and with every proposer, and prefill chunks; `text_ids`: real text."""

    def decoding(shape: Shape) -> list[Bench]:
        rows = text_rows(text_ids, shape.batch_size, shape.context_tokens)
        bench = Bench(target, rows, rows.numel(), (0,))
        drafted = tuple(gamma for gamma in grid.gammas if gamma > 0)
        return [
            bench,
            *(
                replace(bench, gammas=drafted, proposer=name, proposing=each)
                for name, each in proposing.items()
            ),
        ]

    def prefill(shape: PrefillShape) -> list[Bench]:
        width = shape.context_tokens + shape.chunk_tokens
        rows = text_rows(text_ids, shape.batch_size, width)
        bench = Bench(target, rows, shape.batch_size * shape.chunk_tokens)
        with_drafts = [
            replace(bench, proposer=name, proposing=each)
            for name, each in proposing.items()
            if each.draft is not None
        ]
        return with_drafts or [bench]  # the target's own pass is timed in either

    return [
        bench
        for benches in (map(decoding, grid.shapes()), map(prefill, grid.prefill_shapes()))
        for of_shape in benches
        for bench in of_shape
    ]


def text_rows(text_ids: Sequence[int], num_rows: int, width: int) -> torch.Tensor:
    """[num_rows, width] windows of the text at even distances, wrapping round where it is short."""
    stream = torch.tensor(list(text_ids))
    starts = torch.arange(num_rows)[:, None] * max(1, len(stream) // num_rows)
    return stream[(starts + torch.arange(width)[None, :]) % len(stream)]


def _next(turns: Iterator[int], view: PolicyView) -> int:
    return next(turns, view.draft_length)


def _scenario(deployment: dict[str, Any], speculation: dict[str, Any]) -> Scenario:
    return parse_scenario(
        {
            "name": "timed cells",
            "profile": "none",
            "contract": "greedy_equality",
            "sampling": {"temperature": 0.0},
            "workload": {"arrivals": {"kind": "batch"}, "lengths": {"kind": "recorded"}},
            "deployment": deployment,
            "speculation": speculation,
            "warmup_fraction": 0.0,
        },
        "the timed cells",
    )
