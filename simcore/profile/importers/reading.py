"""What an importer understood of its files, before it becomes part of a profile."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from simcore.errors import EngineFileError
from simcore.profile.counts import Counts
from simcore.profile.schema import RecordKind
from simcore.validation import describe_validation_error

if TYPE_CHECKING:
    import pandas as pd

Scope = Literal["lifetime", "difference", "intervals", "requests"]


@dataclass(frozen=True)
class CountedRecord:
    """One acceptance record: an engine's counts by γ, or the rows of a trace.

    `rows` has requests.parquet's columns and `traces` traces.parquet's, both without `record`.
    """

    kind: RecordKind
    scope: Scope
    counts: dict[int, Counts] = field(default_factory=dict)
    num_requests: int = 0  # 0: not stated
    domain: str | None = None  # None: the files do not say
    temperature: float | None = None
    rows: "pd.DataFrame | None" = None
    traces: "pd.DataFrame | None" = None
    max_gamma: int | None = None  # of a trace


@dataclass(frozen=True)
class Reading:
    """Records, timed samples, and figures that are shown but stored nowhere.

    `samples` has cost.parquet's columns. `whole_steps`: their times hold drafting and everything
    else of a step, not the target pass alone.
    """

    engine: str
    records: tuple[CountedRecord, ...] = ()
    samples: "pd.DataFrame | None" = None
    whole_steps: bool = False
    model: str | None = None
    figures: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def make_counts(where: str, **values: object) -> Counts:
    """Counts whose identities hold. Raises EngineFileError with the one that does not."""
    try:
        return Counts.model_validate(values)
    except ValidationError as error:
        raise EngineFileError(f"{where}: {describe_validation_error(error)}") from None


def check_gamma(where: str, found: int, said: int | None) -> int:
    """The draft length that the file shows, against the user's. Raises EngineFileError."""
    if said is not None and said != found:
        raise EngineFileError(
            f"{where} shows {found} draft positions, --gamma says {said}; expected the same"
        )
    return found
