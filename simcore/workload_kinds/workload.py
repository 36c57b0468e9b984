"""The workload of a scenario: who asks, how often, for how much."""

from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag, model_validator

from simcore.profile.schema import Frozen
from simcore.workload_kinds.arrivals import AnyArrivals, ClosedLoopArrivals, RecordedArrivals
from simcore.workload_kinds.domain import DomainShare
from simcore.workload_kinds.lengths import AnyLengths, FileRowsLengths
from simcore.workload_kinds.recording import Recording
from simcore.workload_kinds.sessions import Sessions


def _spelling(value: object) -> str:
    return "share" if isinstance(value, dict | DomainShare) else "weight"


WeightOrShare = Annotated[
    Annotated[float, Tag("weight")] | Annotated[DomainShare, Tag("share")],
    Discriminator(_spelling),  # so that a wrong value gives one error, not one for each spelling
]


class Workload(Frozen):
    """What the service is asked for."""

    arrivals: AnyArrivals
    lengths: AnyLengths
    domains: dict[str, WeightOrShare] = Field(
        default_factory=dict, description="domain -> weight or share; empty: every domain alike"
    )
    sessions: Sessions | None = Field(None, description="null: every request by itself")
    num_requests: int | None = Field(
        2000, ge=1, le=10_000_000, description="null: all that the recorded file holds"
    )

    patience_s: float | None = Field(
        None, gt=0.0, description="a client gives up this long after its arrival; null: never"
    )

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if any(self.share(name).weight <= 0.0 for name in self.domains):
            raise ValueError(f"domains {self.domains}; expected weights above 0")
        return self

    @model_validator(mode="after")
    def _check_sessions(self) -> Self:
        by_itself = isinstance(self.arrivals, ClosedLoopArrivals | RecordedArrivals)
        if self.sessions is not None and (by_itself or isinstance(self.lengths, FileRowsLengths)):
            raise ValueError(
                f"sessions with {self.arrivals.kind!r} arrivals and {self.lengths.kind!r} lengths: "
                "these say themselves who asks when; use arrivals that start sessions, or leave "
                "sessions out"
            )
        return self

    @model_validator(mode="after")
    def _check_recording(self) -> Self:
        if isinstance(self.lengths, FileRowsLengths):
            recorded = isinstance(self.arrivals, RecordedArrivals)
            if recorded and self.lengths.file is not None:
                raise ValueError(
                    "recorded arrivals and lengths.file name two files; leave lengths.file out, so "
                    "that each request's times and lengths come from one row"
                )
            if not recorded and self.lengths.file is None:
                raise ValueError(
                    f"lengths 'file_rows' with {self.arrivals.kind!r} arrivals name no file; add "
                    "lengths.file with its path"
                )
        if self.num_requests is None and self.recording is None:
            raise ValueError("num_requests is null but no recorded file is named; give a number")
        return self

    def share(self, domain: str) -> DomainShare:
        """What the workload says of one domain; a bare number is its weight."""
        found = self.domains.get(domain, DomainShare())
        if isinstance(found, DomainShare):
            return found
        return DomainShare.model_construct(weight=found)

    @property
    def recording(self) -> Recording | None:
        """The recorded file whose requests this workload takes, if any."""
        if isinstance(self.arrivals, RecordedArrivals):
            return self.arrivals
        return self.lengths.file if isinstance(self.lengths, FileRowsLengths) else None
