"""The torch engine behind simcore's scheduler: each planned step is one real step."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from calibration.contracts.cut import cut
from calibration.engine import Cycle, Engine, Outcome
from calibration.errors import TargetFailureError
from calibration.proposers.protocol import Topology
from calibration.proposers.tree_protocol import Asked, Draft, PromptChunk
from calibration.serve.texts import ServedCycle, Text
from calibration.timing import OVERHEAD, Stopwatch
from simcore.acceptance.trace import TraceSet
from simcore.serving.executor import Executed
from simcore.serving.state import CANCELLED, PREFILLING, State

FAILURES = (TargetFailureError, torch.OutOfMemoryError)


@dataclass
class EngineExecutor:
    """Carries out the steps of one replica, and keeps what they did."""

    engine: Engine
    texts: list[Text]
    topologies: list[Topology | None]  # by draft mode
    traces: TraceSet  # a row for each output position, filled where a cycle starts
    measures: bool  # else steps take what the cost law says
    draws_cycles: bool = False
    cycles: list[ServedCycle] = field(default_factory=list)
    step_times: list[Executed] = field(default_factory=list)
    num_failures: int = 0
    _seated: dict[int, int] = field(default_factory=dict)  # who has KV, and in which life
    _pending: list[ServedCycle] = field(default_factory=list)
    _luck: dict[int, torch.Tensor] = field(default_factory=dict)  # before the step
    _has_failed: bool = False
    _num_window: int = 0  # nodes of this step beyond roots and candidates
    _watch: Stopwatch | None = None
    _last_end_s: float = -1.0

    def carry_out(self, state: State, index: int) -> None:
        """Follow the ledger, run the engine, and write down what became of every cycle."""
        begin_s = float(state.replicas[index]["now_s"])
        if self._watch is None or begin_s != self._last_end_s:  # it stood idle in between
            self._watch = Stopwatch(self.engine.target.device)
        running = self._follow(state, index)
        chunks, cycles = self._work(state, running)
        taking_part = [*(one.request for one in chunks), *(one.request for one in cycles)]
        self._luck = {n: self.texts[n].generator.get_state() for n in taking_part}
        self._watch.skip()
        try:
            outcomes = self.engine.step(chunks, cycles, self._verify, self._watch.lap)
        except FAILURES:
            self._fail(state, cycles)
            return
        num_chunks = len(chunks)
        for place, outcome in enumerate(outcomes):
            self._take(state, outcome, begin_s, is_prefill=place < num_chunks)
        self._num_window = sum(len(outcome.draft.window_parents) for outcome in outcomes)

    def time(self, state: State, index: int) -> Executed | None:
        """What the stopwatch says. A step whose target failed would have lasted twice as long."""
        step = state.steps[state.replicas[index]["step_row"]]
        step["query_tokens"] += self._num_window
        took = self._executed() if self.measures else None
        self._watch = Stopwatch(self.engine.target.device)  # what follows is the next step's
        if took is not None:
            self.step_times.append(took)
        total_s = float(step["end_s"] - step["begin_s"]) if took is None else took.total_s
        if self._has_failed:
            state.replicas[index]["fault_s"] = float(step["begin_s"]) + total_s / 2
        return took

    def settle(self, state: State, index: int, *, is_committed: bool) -> None:
        """Keep what was committed; of a step that was lost nothing happened, luck included."""
        for cycle in self._pending:
            row, text = state.requests[cycle.request], self.texts[cycle.request]
            if not is_committed or row["state"] == CANCELLED:
                row["output_tokens"] = row["max_tokens"]
            else:
                text.output_ids += cycle.token_ids
                text.ending = cycle.ending
                self.cycles.append(cycle)
                if cycle.ending is not None and self.engine.proposer is not None:
                    self.engine.proposer.learn(text.output_ids)
        if not is_committed:
            for request, luck in self._luck.items():
                self.texts[request].generator.set_state(luck)
        self._pending, self._luck, self._has_failed = [], {}, False
        self._follow(state, index)
        step = state.steps[state.replicas[index]["step_row"]]
        self._last_end_s = float(step["end_s"])

    def _follow(self, state: State, index: int) -> list[int]:
        """Numbers for the ledger's blocks; proposers forget who left or starts anew."""
        count = int(state.replicas[index]["num_running"])
        running: list[int] = state.running[index, :count].tolist()
        rows = state.requests[running]
        lives = dict(zip(running, (rows["num_preemptions"] + rows["num_restarts"]), strict=True))
        if self.engine.proposer is not None:
            for request, life in self._seated.items():
                if lives.get(request) != life:
                    self.engine.proposer.forget(request)
        self._seated = lives
        self.engine.cache.follow(state, running)
        return running

    def _work(self, state: State, running: Sequence[int]) -> tuple[list[PromptChunk], list[Cycle]]:
        chunks, cycles = [], []
        for request in running:
            row = state.requests[request]
            if row["step_tokens"] == 0:
                continue
            if row["state"] == PREFILLING:
                chunks.append(self._chunk(request, row))
            else:
                cycles.append(self._cycle(request, int(row["step_mode"])))
        return chunks, cycles

    def _chunk(self, request: int, row: np.void) -> PromptChunk:
        """The next tokens of a prompt; what a preempted request reads again emits nothing."""
        first = int(row["committed_tokens"])
        tokens = self.texts[request].token_ids[first : first + int(row["step_tokens"])]
        ends = row["step_tokens"] == row["prefill_left_tokens"] and row["emitted_tokens"] == 0
        return PromptChunk(request, tokens, first, bool(ends))

    def _cycle(self, request: int, mode: int) -> Cycle:
        text, topology = self.texts[request], self.topologies[mode]
        token_ids = text.token_ids
        if topology is None:
            return Cycle(request, token_ids)
        asked = Asked(request, token_ids, topology, text.generator)
        return Cycle(request, token_ids, asked, text.transforms.sampling)

    def _verify(
        self, request: int, logits: torch.Tensor, draft: Draft
    ) -> tuple[tuple[int, ...], int]:
        return self.texts[request].judge(logits, draft)

    def _take(self, state: State, outcome: Outcome, begin_s: float, *, is_prefill: bool) -> None:
        """Write a cycle into its row; where the output ends is known only now."""
        request, draft = outcome.request, outcome.draft
        row, text = state.requests[request], self.texts[request]
        start = len(text.output_ids)
        if not is_prefill:
            mode = state.modes[row["step_mode"]]
            scored_more = mode["proposed_tokens"] > mode["verified_tokens"]
            proposed = draft.num_candidates
            row["step_verified"] = proposed
            row["step_proposed"] = (
                mode["proposed_tokens"] if scored_more and proposed > 0 else proposed
            )
            row["step_accepted"] = len(outcome.path)
            self._record(request, start, draft, outcome.path, int(mode["depth"]))
            if proposed > 0:
                row["confidence_row"] = self.traces.offset[request] + start
        if not outcome.token_ids:
            return
        tokens, ending = cut(outcome.token_ids, text.stopping, text.output_ids)
        if ending is not None:
            row["output_tokens"] = start + len(tokens)
        self._pending.append(
            ServedCycle(
                request, start, begin_s, draft, outcome.path, tuple(tokens), ending, is_prefill
            )
        )

    def _record(
        self, request: int, start: int, draft: Draft, path: tuple[int, ...], depth: int
    ) -> None:
        row = self.traces.offset[request] + start
        is_chain = len(set(draft.parents)) == draft.num_candidates
        self.traces.proposed[row] = min(draft.num_candidates, depth) if is_chain else depth
        self.traces.accepted[row] = len(path)

    def _fail(self, state: State, cycles: Sequence[Cycle]) -> None:
        self._has_failed, self._num_window = True, 0
        self.num_failures += 1
        for cycle in cycles:
            row = state.requests[cycle.request]
            row["step_proposed"] = row["step_verified"] = row["step_accepted"] = 0

    def _executed(self) -> Executed:
        assert self._watch is not None
        phase_s = self._watch.stop()
        factor = 2.0 if self._has_failed else 1.0
        propose, target, reconcile, overhead = (
            factor * phase_s.get(name, 0.0) for name in ("propose", "target", "reconcile", OVERHEAD)
        )
        return Executed(propose, target, reconcile, overhead)
