"""How far a command that takes its time has come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, int], None]  # done, of all


@contextmanager
def progress(what: str, unit: str, *, compiles: bool = True) -> Iterator[Advance]:
    """A progress bar on stderr where that is a terminal; says so while kernels compile.

    `compiles`: whether this work runs the step kernel.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        Remaining(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        text = f"compiling the step kernel (once, about 10 s), then {what}"
        task = bars.add_task(text if compiles and _needs_compilation() else what, total=None)

        def advance(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, description=what)

        yield advance


def _needs_compilation() -> bool:
    from simcore.serving.engine import needs_compilation

    return needs_compilation()
