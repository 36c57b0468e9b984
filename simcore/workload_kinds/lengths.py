"""How long prompts and outputs are: the kinds of `workload.lengths`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simcore.profile.schema import Frozen
from simcore.workload_kinds.recording import Recording

MAX_TOKENS = 1_000_000_000


class LognormalTokens(Frozen):
    """Token counts, lognormal with this mean and coefficient of variation, rounded, clipped."""

    mean_tokens: float = Field(ge=1.0)
    cv: float = Field(ge=0.0, le=10.0, description="standard deviation / mean")
    max_tokens: int = Field(ge=1, le=MAX_TOKENS)

    @model_validator(mode="after")
    def _check_limit(self) -> Self:
        if self.max_tokens < self.mean_tokens:
            raise ValueError(
                f"max_tokens {self.max_tokens} is below mean_tokens {self.mean_tokens}; raise it"
            )
        return self


class LognormalLengths(Frozen):
    """Prompt and output lengths drawn apart from each other."""

    kind: Literal["lognormal"] = "lognormal"
    prompt: LognormalTokens
    output: LognormalTokens


class RecordedLengths(Frozen):
    """Prompt length, output length and acceptance trace of one recorded request together."""

    kind: Literal["recorded"]


class FixedLengths(Frozen):
    """Every request is as long as every other."""

    kind: Literal["fixed"]
    prompt_tokens: int = Field(ge=1, le=MAX_TOKENS)
    output_tokens: int = Field(ge=1, le=MAX_TOKENS)


class EmpiricalLengths(Frozen):
    """Rows of a table drawn uniformly with replacement, prompt and output together."""

    kind: Literal["empirical"]
    path: str = Field(min_length=1, description="CSV or Parquet, relative to the scenario file")
    prompt_column: str = Field("prompt_tokens", min_length=1)
    output_column: str = Field("output_tokens", min_length=1)


class FileRowsLengths(Frozen):
    """Prompt and output length of the rows of a recorded file, one request a row, in order."""

    kind: Literal["file_rows"]
    file: Recording | None = Field(
        None, description="null: the rows whose times the recorded arrivals take"
    )


Lengths = LognormalLengths | RecordedLengths | FixedLengths | EmpiricalLengths | FileRowsLengths
AnyLengths = Annotated[Lengths, Field(discriminator="kind")]
