"""The one way to compile: numba, cached on disk, typed for readers and mypy."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.codegen import CPUCodeLibrary

from simcore.folders import cache_folder

F = TypeVar("F", bound=Callable[..., object])
NUM_CACHES_KEPT = 8
INNER_PREFIX = "simcore_inner_"
COMPILED_PARTS = ("acceptance", "cost", "serving")  # the folders that hold compiled functions
COMPILED_HELPERS = ("compiled.py", "by_pointer.py", "records.py")  # what shapes their machine code


def compiled(function: F) -> F:
    """Compile into the compiled functions that call it; Python cannot.

    Compiled functions allocate nothing, so numba's reference counting is off. Both matter because
    a step costs a tenth of what it would with its arrays counted and its fields copied at every
    call. A way in from Python for each would take most of the time of compilation.
    """
    return _inner(function, forceinline=True)


def compiled_apart(function: F) -> F:
    """The same for what a step seldom calls: compiled once, not again into every caller."""
    return _inner(function)


def compiled_entry(function: F) -> F:
    """What Python calls: compiled on first use; later processes load it from the disk cache.

    It lets other threads run meanwhile: a dashboard answers its other visitors.
    """
    result: F = numba.njit(cache=True, error_model="numpy", nogil=True, _nrt=False)(function)
    return result


def lacks_machine_code(entry: Callable[..., object]) -> bool:
    """Whether a `compiled_entry` has none on disk yet."""
    folder = Path(entry.stats.cache_path)  # type: ignore[attr-defined]  # numba adds it
    return not any(folder.glob(f"{Path(entry.__code__.co_filename).stem}.{entry.__name__}-*.nbi"))


def _inner(function: F, **options: bool) -> F:
    function.__qualname__ = INNER_PREFIX + function.__qualname__  # names numba's library of it
    dispatcher = numba.njit(
        cache=True,
        error_model="numpy",
        _nrt=False,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        **options,
    )(function)

    def keep(result: Any) -> None:
        """Remember a compiled version for its callers, but not for calls from Python."""
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*arguments: object, **named: object) -> None:
        raise TypeError(
            f"{function.__name__} is compiled into its callers only; Python goes in by a function "
            "marked compiled_entry"
        )

    dispatcher.add_overload = keep
    dispatcher._compile_for_args = refuse
    result: F = dispatcher
    return result


def _choose_cache() -> None:
    """Keep machine code in a folder named by the sources that it was compiled from.

    numba looks only at the file of the function that it loads; one that calls a changed function
    of another file would go on running the old code.
    """
    root = Path(__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    for name in COMPILED_HELPERS:
        digest.update((root / name).read_bytes())
    for path in sorted(path for part in COMPILED_PARTS for path in (root / part).rglob("*.py")):
        digest.update(path.read_bytes())
    folder = cache_folder() / "kernels" / digest.hexdigest()[:16]
    numba.config.CACHE_DIR = str(folder)
    # Other processes may do the same at this moment: a folder that is gone or locked is theirs.
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        by_age = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in by_age[:-NUM_CACHES_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _optimise_once() -> None:
    """Let LLVM optimise the functions that Python enters by, not again all that they call.

    numba hands every function to LLVM with everything below it. What is compiled into its callers
    only is optimised there; without this the kernel takes a third longer to compile.
    """
    whole = CPUCodeLibrary._optimize_final_module

    def optimise(library: Any) -> None:
        if not library.name.startswith(INNER_PREFIX):
            whole(library)

    CPUCodeLibrary._optimize_final_module = optimise


_choose_cache()
_optimise_once()
