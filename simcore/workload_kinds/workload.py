"""The workload of a scenario: who asks, how often, for how much."""

from typing import Self

from pydantic import Field, model_validator

from simcore.profile.schema import Frozen
from simcore.workload_kinds.arrivals import AnyArrivals, RecordedArrivals
from simcore.workload_kinds.lengths import AnyLengths, FileRowsLengths
from simcore.workload_kinds.recording import Recording


class Workload(Frozen):
    """What the service is asked for."""

    arrivals: AnyArrivals
    lengths: AnyLengths
    domains: dict[str, float] = Field(
        default_factory=dict, description="domain -> weight; empty: every domain alike"
    )
    num_requests: int | None = Field(
        2000, ge=1, le=10_000_000, description="null: all that the recorded file holds"
    )

    patience_s: float | None = Field(
        None, gt=0.0, description="a client gives up this long after its arrival; null: never"
    )

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if any(weight <= 0.0 for weight in self.domains.values()):
            raise ValueError(f"domains {self.domains}; expected weights above 0")
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

    @property
    def recording(self) -> Recording | None:
        """The recorded file whose requests this workload takes, if any."""
        if isinstance(self.arrivals, RecordedArrivals):
            return self.arrivals
        return self.lengths.file if isinstance(self.lengths, FileRowsLengths) else None
