"""A way in from Python to functions that are compiled into their callers only."""

from functools import cache

import numba


@cache
def from_python(inner):
    """`inner` as a function that tests can call."""

    @numba.njit
    def call(*arguments):
        return inner(*arguments)

    return call
