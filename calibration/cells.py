"""Times the phases of real steps over a grid, on real tensors, shape by shape, round after round.

The step that is timed verifies the text's own continuation, so that every shape has γ drafts
whatever the proposers would find; each proposer's own propose call is timed beside it. Verification
is the greedy rule. Shapes take turns within a round and rounds repeat, so that a busy moment of
the machine hits all shapes alike and the median forgets it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from calibration.contracts.cut import Stopping, cut
from calibration.contracts.greedy import GREEDY as GREEDY_EQUALITY
from calibration.grid import Cell, Grid, PrefillShape, Shape
from calibration.models import LanguageModel, crop_cache
from calibration.proposers.protocol import Proposal, Proposer
from calibration.step import Batch, run_step
from calibration.timing import OVERHEAD, Stopwatch
from simcore.profile.schema import Sampling

GREEDY = Sampling()
Timing = tuple[Cell, float]


@dataclass(frozen=True)
class Continuation:
    """Proposes what really follows in the text: always γ drafts, at the cost of a slice."""

    text_ids: torch.Tensor  # [B, S + γ_max]
    name: str = "continuation"
    own_model: None = None

    def proposes_point_mass(self, sampling: Sampling) -> bool:
        """Always: the text is fixed."""
        del sampling
        return True

    def propose(
        self,
        token_ids: torch.Tensor,
        num_speculative_tokens: int,
        sampling: Sampling,
        generators: list[torch.Generator],
    ) -> Proposal:
        """The next γ tokens of the text after `token_ids` [B, S]."""
        del sampling, generators
        begin = token_ids.shape[1]
        drafts = self.text_ids[:, begin : begin + num_speculative_tokens]
        return Proposal(drafts, (num_speculative_tokens,) * len(drafts), None)

    def keep(self, num_tokens: int) -> None:
        """Nothing to forget."""


class StepBench:
    """One decoding shape, held ready: caches filled, rewound after every timed step."""

    def __init__(
        self,
        target: LanguageModel,
        proposers: Sequence[Proposer],
        text_ids: torch.Tensor,
        shape: Shape,
        gammas: Sequence[int],
    ) -> None:
        self._target, self._proposers = target, proposers
        self._shape, self._gammas = shape, gammas
        self._continuation = Continuation(text_ids)
        self._prompt_ids = text_ids[:, : shape.context_tokens + 1]  # [B, C + 1], root included
        self._generators = [torch.Generator(target.device) for _ in text_ids]
        self._cache = target.new_cache()
        target.forward(self._prompt_ids[:, :-1], self._cache, keep_tokens=1)

    def time_once(self) -> list[Timing]:
        """One timing of every phase at every γ."""
        timings: list[Timing] = []
        for gamma in self._gammas:
            timings += self._time_step(gamma)
            if gamma > 0:
                timings += [self._time_propose(proposer, gamma) for proposer in self._proposers]
        return timings

    def _time_step(self, gamma: int) -> list[Timing]:
        start_s = time.perf_counter()
        batch = Batch(self._prompt_ids, self._cache, self._generators)
        outcome = run_step(self._target, self._continuation, batch, gamma, GREEDY, GREEDY_EQUALITY)
        stopping = Stopping(self._shape.context_tokens + gamma + 1, self._target.eos_token_ids)
        for row in outcome.emitted.tolist():
            cut(row, stopping, ())
        total_s = time.perf_counter() - start_s
        crop_cache(self._cache, self._shape.context_tokens)
        phase_s = outcome.phase_s
        covered_s = phase_s["propose"] + phase_s["target"] + phase_s["reconcile"]
        return [
            (self._cell("target", None, gamma), phase_s["target"]),
            (self._cell("reconcile", None, gamma), phase_s["reconcile"]),
            (Cell(OVERHEAD, None, self._shape.batch_size, 1, 0, 0), total_s - covered_s),
        ]

    def _time_propose(self, proposer: Proposer, gamma: int) -> Timing:
        watch = Stopwatch(self._target.device)
        proposer.propose(self._prompt_ids, gamma, GREEDY, self._generators)
        watch.lap("propose")
        proposer.keep(self._shape.context_tokens)
        return self._cell("propose", proposer.name, gamma), watch.stop()["propose"]

    def _cell(self, phase: str, proposer: str | None, gamma: int) -> Cell:
        shape = self._shape
        return Cell(phase, proposer, shape.batch_size, gamma + 1, shape.context_tokens, gamma)


class PrefillBench:
    """One prefill shape of the target, or of a proposer's own model (`proposer` names it).

    A chunk of prompt tokens is read after what the cache already holds.
    """

    def __init__(
        self,
        model: LanguageModel,
        text_ids: torch.Tensor,
        shape: PrefillShape,
        proposer: str | None = None,
    ) -> None:
        self._model, self._shape, self._proposer = model, shape, proposer
        self._cache = model.new_cache()
        if shape.context_tokens:
            model.forward(text_ids[:, : shape.context_tokens], self._cache, keep_tokens=1)
        end = shape.context_tokens + shape.chunk_tokens
        self._chunk_ids = text_ids[:, shape.context_tokens : end]  # [B, chunk]

    def time_once(self) -> list[Timing]:
        """One timing of the model's pass over the chunk."""
        shape = self._shape
        watch = Stopwatch(self._model.device)
        self._model.forward(self._chunk_ids, self._cache, keep_tokens=1)
        watch.lap("pass")
        if shape.context_tokens:
            crop_cache(self._cache, shape.context_tokens)
        else:
            self._cache = self._model.new_cache()
        phase = "target" if self._proposer is None else "propose"
        size = (shape.batch_size, shape.chunk_tokens, shape.context_tokens)
        return [(Cell(phase, self._proposer, *size, 0), watch.stop()["pass"])]


Bench = StepBench | PrefillBench


def prepare_benches(
    target: LanguageModel,
    fresh_proposers: Callable[[], Sequence[Proposer]],
    grid: Grid,
    text_ids: Sequence[int],
) -> list[Callable[[], Bench]]:
    """One maker per shape; calling it fills the caches. `text_ids` is real prompt text."""
    gammas = grid.gammas

    def step_bench(shape: Shape) -> Bench:
        width = shape.context_tokens + 1 + max(gammas)
        rows = text_rows(text_ids, shape.batch_size, width)
        return StepBench(target, fresh_proposers(), rows, shape, gammas)

    def prefill_bench(shape: PrefillShape) -> Bench:
        width = shape.context_tokens + shape.chunk_tokens
        return PrefillBench(target, text_rows(text_ids, shape.batch_size, width), shape)

    def draft_bench(proposer: Proposer, model: LanguageModel, shape: PrefillShape) -> Bench:
        rows = text_rows(text_ids, shape.batch_size, shape.chunk_tokens)
        return PrefillBench(model, rows, shape, proposer.name)

    first_chunks = [shape for shape in grid.prefill_shapes() if shape.context_tokens == 0]
    return [
        *(partial(step_bench, shape) for shape in grid.shapes()),
        *(partial(prefill_bench, shape) for shape in grid.prefill_shapes()),
        *(
            partial(draft_bench, proposer, proposer.own_model, shape)
            for proposer in fresh_proposers()
            if proposer.own_model is not None
            for shape in first_chunks
        ),
    ]


def text_rows(text_ids: Sequence[int], num_rows: int, width: int) -> torch.Tensor:
    """[num_rows, width] windows of the text at even distances, wrapping round where it is short."""
    stream = torch.tensor(list(text_ids))
    starts = torch.arange(num_rows)[:, None] * max(1, len(stream) // num_rows)
    return stream[(starts + torch.arange(width)[None, :]) % len(stream)]
