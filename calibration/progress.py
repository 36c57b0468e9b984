"""Progress on stderr: how far a long phase is and how long it still takes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Item = TypeVar("Item")


class Track(Protocol):
    """Iterates `items` and shows how far it is."""

    def __call__(self, items: Sequence[Item], label: str) -> Iterable[Item]: ...


def silent(items: Sequence[Item], label: str) -> Iterable[Item]:
    """No display at all."""
    del label
    return items


class ProgressBars:
    """One bar a phase, with the time left; a context manager that owns the terminal lines."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<24}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )

    def __enter__(self) -> "ProgressBars":
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()

    def track(self, items: Sequence[Item], label: str) -> Iterator[Item]:
        """Iterate `items` and show how far it is."""
        yield from self._progress.track(items, description=label)
