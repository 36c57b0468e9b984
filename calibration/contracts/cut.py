"""Where a request ends inside a cycle: EOS, a stop string, or the largest number of tokens."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from calibration.errors import CalibrationError


class Ending(StrEnum):
    """Why a request ended; where several hold at one token, the first named here counts."""

    EOS = "eos"
    STOP_STRING = "stop_string"
    MAX_TOKENS = "max_tokens"


@dataclass(frozen=True)
class Stopping:
    """When a request's output ends; the token that ends it is kept."""

    max_tokens: int
    eos_token_ids: Set[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    decode: Callable[[Sequence[int]], str] | None = None  # output tokens -> text

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise CalibrationError(f"max_tokens is {self.max_tokens}; expected at least 1")
        if self.stop_strings and (self.decode is None or not all(self.stop_strings)):
            raise CalibrationError(
                f"stop strings {list(self.stop_strings)} need a tokenizer's decode and at least "
                "one character each; pass both"
            )

    def ending(self, output_ids: Sequence[int]) -> Ending | None:
        """Why the output ends with its last token; None where it goes on."""
        if output_ids[-1] in self.eos_token_ids:
            return Ending.EOS
        if self.decode is not None and self.stop_strings:
            text = self.decode(output_ids)
            if any(stop in text for stop in self.stop_strings):
                return Ending.STOP_STRING
        return Ending.MAX_TOKENS if len(output_ids) >= self.max_tokens else None


def cut(
    token_ids: Sequence[int], stopping: Stopping, output_ids: Sequence[int]
) -> tuple[list[int], Ending | None]:
    """`token_ids` up to and with the first that ends the output, and why it ends."""
    output = list(output_ids)
    for index, token in enumerate(token_ids):
        output.append(token)
        ending = stopping.ending(output)
        if ending is not None:
            return list(token_ids[: index + 1]), ending
    return list(token_ids), None
