"""A policy written in plain Python and passed to `simulate(policy=...)`.

It is asked before every step, in the one-step-at-a-time mode, and sees what a scheduler sees.

    def calm(view: PolicyView) -> int:
        return view.longest if view.num_running <= 4 else 0

    result = simulate(scenario, policy=calm)
    result.policy_changes  # when and from what to what
"""

from collections.abc import Callable
from dataclasses import dataclass

from simcore.errors import ScenarioError
from simcore.serving.one_step import set_mode
from simcore.serving.policy import CALLER
from simcore.serving.state import State


@dataclass(frozen=True)
class PolicyView:
    """What the policy may look at when a step of one replica is about to begin."""

    now_s: float
    replica: int
    draft_length: int  # in force now
    longest: int  # num_speculative_tokens of the scenario
    num_running: int
    num_waiting: int
    free_block_fraction: float
    last_proposed_tokens: int  # of the replica's step before, whole batch
    last_accepted_tokens: int


CallerPolicy = Callable[[PolicyView], int]


def between_off_and_full(policy: CallerPolicy) -> CallerPolicy:
    """The same policy, stopped where it asks for a length that acceptance by position lacks."""

    def asked(view: PolicyView) -> int:
        chosen = policy(view)
        if isinstance(chosen, int) and 0 < chosen < view.longest:
            raise ScenarioError(
                f"the policy asked for {chosen} drafts at {view.now_s:.3f} s, but acceptance by "
                f"position holds for {view.longest} only; choose 0 or {view.longest}, or use a "
                "profile with traces (acceptance 'trace')"
            )
        return chosen

    return asked


def ask_policy(
    policy: CallerPolicy, state: State, index: int, now_s: float, last: tuple[int, int]
) -> None:
    """Let the caller's policy set the draft length. `last`: proposed, accepted of the step before.

    Raises ScenarioError where it asks for what the scenario does not allow.
    """
    replica = state.replicas[index]
    view = PolicyView(
        now_s=now_s,
        replica=index,
        draft_length=int(replica["mode"]),
        longest=int(state.limits.mode),
        num_running=int(replica["num_running"]),
        num_waiting=int(replica["num_waiting"]),
        free_block_fraction=float(replica["free_blocks"] / replica["total_blocks"]),
        last_proposed_tokens=last[0],
        last_accepted_tokens=last[1],
    )
    chosen = policy(view)
    if not isinstance(chosen, int) or not 0 <= chosen <= state.limits.mode:
        raise ScenarioError(
            f"the policy asked for {chosen!r} drafts at {now_s:.3f} s; expected a whole number "
            f"from 0 to num_speculative_tokens = {state.limits.mode}"
        )
    is_tree = state.modes[view.longest]["verified_tokens"] > view.longest
    if is_tree and 0 < chosen < view.longest:
        raise ScenarioError(
            f"the policy asked for {chosen} drafts at {now_s:.3f} s; a tree of depth "
            f"{view.longest} is drafted whole or not at all: expected 0 or {view.longest}"
        )
    if chosen != view.draft_length:
        set_mode(state, index, now_s, chosen, CALLER)
