"""What every engine's settings are made of: the plan's choice, argument lists, shell text."""

import re
import shlex
from dataclasses import dataclass

from simcore.planner.document import Plan
from simcore.profile.schema import Contract, ModelIdentity, Proposer

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
Arguments = list[str]


@dataclass(frozen=True)
class EngineSettings:
    """How to start one engine as the plan says; `refusal` says why it cannot be done exactly."""

    engine: str
    version: str  # that the flags were written for
    argv: tuple[str, ...]  # where refused: the nearest that the engine can do
    notes: tuple[str, ...]
    refusal: str | None = None

    @property
    def command(self) -> str:
        """One line to paste into a POSIX shell."""
        return shlex.join(self.argv)


@dataclass(frozen=True)
class Choice:
    """What an engine is asked to run."""

    plan: Plan
    proposer: Proposer | None  # None: off
    gamma: int  # 0: off

    @property
    def samples_drafts(self) -> bool:
        """The drafts were drawn from the draft model's own distribution when measured."""
        has_model = self.proposer is not None and self.proposer.kind != "ngram"
        return has_model and self.plan.scenario.contract is Contract.EXACT_SAMPLING

    @property
    def tensor_parallel(self) -> int:
        """GPUs of one replica."""
        return self.plan.profile.identity.tensor_parallel


def choice_of(plan: Plan) -> Choice:
    """The decision, with the proposer as the profile describes it."""
    name = plan.decision.proposer
    if plan.decision.choice == "off" or name is None:
        return Choice(plan, None, 0)
    return Choice(plan, plan.profile.proposers[name], plan.decision.num_speculative_tokens)


def model_argument(model: ModelIdentity | None, placeholder: str) -> str:
    """A hub id as the profile gives it, or the placeholder to replace."""
    if model is not None and HUB_ID.fullmatch(model.name):
        return model.name
    return placeholder


def common_notes(choice: Choice) -> list[str]:
    """Caveats that hold for every engine."""
    plan, identity = choice.plan, choice.plan.profile.identity
    deployment = plan.scenario.deployment
    notes = []
    if model_argument(identity.target, "") == "":
        notes.append(f"Replace TARGET_MODEL: the target of the profile is {identity.target.name}.")
    if identity.target.quantization != "none":
        notes.append(
            f"Serve the target quantized as measured ({identity.target.quantization}): "
            "quantization changes cost and acceptance."
        )
    if identity.hardware.device != "cuda":
        notes.append(
            f"The profile was measured on a CPU with {identity.engine.name}; its speed-up does "
            "not carry over to another machine or engine. Measure there first."
        )
    if deployment.replicas > 1:
        notes.append(
            f"One replica of {deployment.replicas}: start each alike, behind a load balancer."
        )
    if deployment.kv_cache_tokens is not None:
        notes.append(
            f"The plan gives a replica {deployment.kv_cache_tokens:,} tokens of KV cache; the "
            "command leaves the KV cache to what the engine takes of the memory."
        )
    if choice.gamma > 0:
        notes.append(_edge_note(plan))
    return notes


def draft_notes(choice: Choice) -> list[str]:
    """What to fill in for the draft, and what the profile leaves open about it."""
    proposer = choice.proposer
    if proposer is None or proposer.kind == "ngram":
        return []
    notes = []
    if model_argument(proposer.model, "") == "":
        named = proposer.model.name if proposer.model else "not named by the profile"
        notes.append(f"Replace DRAFT_MODEL: the draft of the profile is {named}.")
    if proposer.kind == "eagle":
        notes.append("The profile does not say which EAGLE it is: name eagle3 for EAGLE-3 heads.")
    return notes


def _edge_note(plan: Plan) -> str:
    edge = plan.break_even
    if edge.rate_per_s is None:
        return f"Load: {edge.reason}."
    return (
        f"Speculation pays up to {edge.rate_per_s:.3g} requests/s over "
        f"{plan.scenario.deployment.replicas} replica(s); start without the speculative flags "
        "where the load stays above."
    )
