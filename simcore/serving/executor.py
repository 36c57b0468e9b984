"""Who carries out a planned step: by default the simulator's own draw and price, else an executor.

A real engine stands behind the scheduler in this way (calibration's serving loop), and so does a
replay of times that were measured. Everything else of a run is the same for all of them.
"""

from dataclasses import dataclass, fields
from typing import Protocol

from simcore.serving.one_step import launch, plan
from simcore.serving.state import State


@dataclass(frozen=True)
class Executed:
    """How long a step really took, by phase."""

    propose_s: float
    target_s: float
    reconcile_s: float
    overhead_s: float

    @property
    def total_s(self) -> float:
        """The whole step."""
        return self.propose_s + self.target_s + self.reconcile_s + self.overhead_s


class Executor(Protocol):
    """Carries out the steps of `Service.run_stepwise`."""

    @property
    def draws_cycles(self) -> bool:
        """Whether cycles are still the simulator's to draw; else `carry_out` fills them in."""
        ...

    def carry_out(self, state: State, index: int) -> None:
        """The step under plan has its blocks; requests preempted for it have lost theirs.

        An executor that does not draw sets step_proposed, step_verified and step_accepted of
        every row that decodes, and output_tokens where it finds that an output ends. Called with
        nothing running too, where a request failed for want of blocks.
        """
        ...

    def time(self, state: State, index: int) -> Executed | None:
        """How long the step took, now that it is counted; None: as the cost law says."""
        ...

    def settle(self, state: State, index: int, *, is_committed: bool) -> None:
        """The step has been committed, or was lost with its replica."""
        ...


def execute(executor: Executor, state: State, index: int, now_s: float) -> None:
    """Begin a step of a replica through `executor`."""
    is_planned = plan(state, index, now_s)
    executor.carry_out(state, index)
    if not is_planned:
        return
    launch(state, index, executor.draws_cycles)
    took = executor.time(state, index)
    if took is None:
        return
    replica = state.replicas[index]
    step = state.steps[replica["step_row"]]
    for phase in fields(took):
        step[phase.name] = getattr(took, phase.name)
    step["end_s"] = replica["step_end_s"] = now_s + took.total_s
