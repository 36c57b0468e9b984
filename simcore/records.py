"""Rows of named numbers that compiled code reads and writes in place."""

from typing import Any

import numpy as np

Records = Any  # a numpy structured array; numpy's types do not know its fields
Record = Any  # one row of one


def codes(count: int) -> Any:
    """0, 1, .. as numbers to numba: each literal passed compiles the function called once more."""
    return tuple(map(np.int64, range(count)))


def new_record(dtype: "np.dtype[Any]", **values: float) -> Record:
    """One row of `dtype`, zero but for `values`.

    One pointer to many numbers compiles and passes faster than as many arguments.
    """
    row = np.zeros(1, dtype=dtype).view(np.recarray)[0]
    for name, value in values.items():
        row[name] = value
    return row
