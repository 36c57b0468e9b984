"""The one way to compile: numba, cached on disk, typed for readers and mypy."""

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile on first call; later processes load the machine code from the disk cache.

    Compiled functions allocate nothing, so numba's reference counting is off: the arrays of a
    State, passed down by value, otherwise cost six times the work of a step.
    """
    result: F = njit(cache=True, error_model="numpy", _nrt=False)(function)
    return result
