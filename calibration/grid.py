"""Which shapes are timed: batch × context × γ, and prefill chunks."""

import math
from dataclasses import dataclass

from calibration.errors import CalibrationError

PREFILL_BATCHES = (1, 4)
PREFILL_CHUNKS = (16, 32, 64, 128, 256, 512, 1024)
LATER_CHUNK_CONTEXT = 512
LATER_CHUNK = 256
MIN_CELLS = 10  # what fit_cost needs to hold some out


@dataclass(frozen=True, order=True)
class Cell:
    """One row of the cost table: a phase and the shape it was timed at."""

    phase: str
    proposer: str | None
    batch_size: int
    num_query_tokens: int  # per request
    context_tokens: int  # per request, in the KV cache before the step
    num_speculative_tokens: int


@dataclass(frozen=True)
class Shape:
    """Requests of equal length that decode together."""

    batch_size: int
    context_tokens: int


@dataclass(frozen=True)
class PrefillShape:
    """Prompts, or later chunks of prompts, that are read together."""

    batch_size: int
    chunk_tokens: int
    context_tokens: int = 0


@dataclass(frozen=True)
class Grid:
    """The box that is measured; shapes above `max_context_tokens` over the batch are skipped."""

    batches: tuple[int, ...] = (1, 2, 4, 8, 16)
    contexts: tuple[int, ...] = (64, 512, 1536)
    gammas: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 8)
    prefill_chunks: tuple[int, ...] = PREFILL_CHUNKS
    max_context_tokens: int = 9000
    max_prefill_tokens: int = 4096

    def __post_init__(self) -> None:
        for name, values, least in (
            ("batches", self.batches, 1),
            ("contexts", self.contexts, 1),
            ("gammas", self.gammas, 0),
        ):
            if not values or min(values) < least or len(set(values)) < len(values):
                raise CalibrationError(
                    f"{name} are {list(values)}; expected distinct whole numbers of at least "
                    f"{least}; correct --{name}"
                )
        if 0 not in self.gammas or max(self.gammas) == 0:
            raise CalibrationError(
                f"gammas are {list(self.gammas)}; expected 0 (plain decoding) and a draft length; "
                "add them to --gammas"
            )

        num_cells = len(self.shapes()) * sum(gamma > 0 for gamma in self.gammas)
        if num_cells < MIN_CELLS:
            raise CalibrationError(
                f"the grid has {num_cells} drafting cells; expected at least {MIN_CELLS}, so that "
                "the cost law can be fitted and checked; add --batches, --contexts or --gammas"
            )

    def shapes(self) -> list[Shape]:
        """Decoding shapes, smallest first."""
        found = [
            Shape(batch, context)
            for batch in self.batches
            for context in self.contexts
            if batch * context <= self.max_context_tokens
        ]
        if not found:
            raise CalibrationError(
                f"every batch × context exceeds {self.max_context_tokens} tokens; expected some "
                "below; choose smaller --batches or --contexts"
            )
        return sorted(found, key=lambda shape: shape.batch_size * shape.context_tokens)

    def prefill_shapes(self) -> list[PrefillShape]:
        """First chunks at context 0, and one later chunk where the contexts reach that far."""
        batches = [size for size in PREFILL_BATCHES if size <= max(self.batches)]
        found = [
            PrefillShape(batch, chunk)
            for batch in batches
            for chunk in self.prefill_chunks
            if batch * chunk <= self.max_prefill_tokens
        ]
        if max(self.contexts) >= LATER_CHUNK_CONTEXT:
            found.append(PrefillShape(1, LATER_CHUNK, LATER_CHUNK_CONTEXT))
        return found


QUICK_GRID = Grid(
    batches=(1, 2, 4, 8),
    contexts=(64, 512),
    gammas=(0, 1, 2, 4, 8),
    prefill_chunks=(16, 64, 256),
)


def parse_numbers(text: str, option: str) -> tuple[int, ...]:
    """'0,1,2' as whole numbers; raises CalibrationError naming `option`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise CalibrationError(
            f"{option} is '{text}'; expected whole numbers with commas, such as 0,1,2,4"
        ) from None


def parse_temperatures(text: str) -> tuple[float, ...]:
    """'0,1' as distinct finite temperatures of at least 0."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    valid = bool(values) and all(math.isfinite(value) and value >= 0.0 for value in values)
    if not valid or len(set(values)) < len(values):
        raise CalibrationError(
            f"--temperatures is '{text}'; expected distinct numbers of at least 0, such as 0,1"
        )
    return values
