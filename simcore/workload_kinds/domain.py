"""One domain of a workload: how much of it there is, and what its requests have in common."""

from pydantic import Field

from simcore.profile.schema import Frozen, Sampling


class DomainShare(Frozen):
    """A share of the requests; a bare number in a scenario is its weight alone."""

    weight: float = Field(1.0, gt=0.0, description="relative to the other domains'")
    sampling: Sampling | None = Field(None, description="of its requests; null: the scenario's")
    priority: int = Field(
        0, ge=-1000, le=1000, description="lower goes first, under priority scheduling"
    )
    shared_prefix_tokens: int = Field(
        0, ge=0, le=10_000_000, description="first tokens of a prompt that others share"
    )
    num_prefixes: int = Field(
        1, ge=1, le=100_000, description="different prefixes; a request has one of them"
    )
