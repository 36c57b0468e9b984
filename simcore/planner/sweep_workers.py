"""Who does the runs of a sweep: this process, its cores, or a Dask cluster that is there.

All give the same rows; they come as they are done, in any order.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any

from simcore.errors import ScenarioError, WorkersError
from simcore.planner.sweep_run import Outcome, Run, run_all
from simcore.serving.engine import needs_compilation

REQUESTS_PER_CHUNK = 40_000  # about a third of a second: what a killed sweep may lose a worker
MAX_CHUNK = 16
SERIAL_REQUESTS = 200_000  # below this workers take longer to start than the runs take
CONNECT_TIMEOUT_S = 10.0
NO_WORKER_TIMEOUT_S = 120.0  # new ones may be on their way
PARENT_POLL_S, RESULT_POLL_S = 1.0, 0.05
IDLE_TIMEOUT_S = 300  # of a worker: the rounds of a race come one after the other
AHEAD = 3  # chunks a worker that are given out
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}

Chunk = tuple[Run, ...]


def outcomes(runs: Sequence[Run], *, jobs: int | None, dask: str | None) -> Iterator[Outcome]:
    """Do the runs, chunk by chunk. `jobs` None: as many processes as there are cores.

    Raises ScenarioError where there is no such number of jobs or no such cluster, and WorkersError,
    from the iterator, where those who do the runs are lost. Closing the iterator stops the work.
    """
    if jobs is not None and jobs < 1:
        raise ScenarioError(f"{jobs} jobs; expected at least 1")
    chunks = _chunks(runs)
    if dask is not None:
        return _on_dask(chunks, dask)
    if jobs is None and sum(_num_requests(run) for run in runs) <= SERIAL_REQUESTS:
        jobs = 1
    if jobs == 1 or len(chunks) == 1:
        return map(run_all, chunks)
    return _on_cores(chunks, -1 if jobs is None else jobs)


def _chunks(runs: Sequence[Run]) -> list[Chunk]:
    """Runs that may share their requests stand together: those of one seed."""
    ordered = sorted(runs, key=lambda run: run.scenario.seed)
    found, start = [], 0
    while start < len(ordered):
        size = max(1, min(MAX_CHUNK, REQUESTS_PER_CHUNK // _num_requests(ordered[start])))
        found.append(tuple(ordered[start : start + size]))
        start += size
    return found


def _num_requests(run: Run) -> int:
    return run.scenario.workload.num_requests or REQUESTS_PER_CHUNK


def _on_cores(chunks: list[Chunk], jobs: int) -> Iterator[Outcome]:
    from joblib import effective_n_jobs  # noqa: PLC0415 - for sweeps that need workers alone
    from joblib.externals.loky import (  # noqa: PLC0415 - likewise
        get_reusable_executor,
    )
    from joblib.externals.loky.process_executor import (  # noqa: PLC0415 - likewise
        ShutdownExecutorError,
    )

    if needs_compilation():  # once, and not in every worker at the same time
        yield run_all(chunks[0])
        chunks = chunks[1:]
    # joblib's own processes, asked directly: where one is killed, its Parallel may end in a thread.
    executor = get_reusable_executor(
        max_workers=effective_n_jobs(jobs), timeout=IDLE_TIMEOUT_S, env=ONE_THREAD
    )
    left, waiting = iter(chunks), set[Future[Outcome]]()
    try:
        while True:
            ahead = AHEAD * effective_n_jobs(jobs) - len(waiting)
            waiting |= {executor.submit(_run_in_worker, each) for each in islice(left, ahead)}
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            # Those that were done come first: where a process was killed, they are kept.
            yield from (each.result() for each in sorted(done, key=_has_failed))
    except (BrokenExecutor, ShutdownExecutorError):
        raise WorkersError(
            "a process that did runs was killed, perhaps for want of memory; with a store all that "
            "is done is kept: run again, with fewer --jobs if it ends like this once more"
        ) from None
    finally:
        if waiting:
            executor.shutdown(kill_workers=True)


def _has_failed(future: Future[Outcome]) -> bool:
    return future.exception() is not None


def _run_in_worker(chunk: Chunk) -> Outcome:
    """The runs, in a process that is there for them alone."""
    _leave_with_parent(os.getppid())
    return run_all(chunk)


@cache
def _leave_with_parent(parent: int) -> None:
    """End this process when the sweep's is gone: one that is killed cannot tell its workers."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_dask(chunks: list[Chunk], address: str) -> Iterator[Outcome]:
    client, as_completed = _connect(address)
    from distributed import KilledWorker  # noqa: PLC0415 - an optional extra

    futures: list[Any] = []
    try:
        futures = client.map(run_all, chunks, pure=False)
        results = as_completed(futures, with_results=True, loop=client.loop)
        while _awaits(results, client):
            _, outcome = next(results)
            if isinstance(outcome, CancelledError):  # what runs become without their scheduler
                raise outcome
            yield outcome
    except (CancelledError, KilledWorker, OSError) as error:
        raise WorkersError(
            f"the Dask cluster at {address} was lost, or its workers were, with runs to do "
            f"({type(error).__name__}); with a store all that is done is kept: run again when the "
            "cluster is there"
        ) from None
    finally:
        with suppress(CancelledError, OSError):  # nobody is there to be told
            client.cancel(futures)
        client.close(timeout=CONNECT_TIMEOUT_S)


def _awaits(results: Any, client: Any) -> bool:
    """Whether a result is there; False: all have been. Raises TimeoutError without any worker."""
    seen_s = time.monotonic()
    while results.count():
        if results.has_ready():
            return True
        if client.scheduler_info()["workers"]:
            seen_s = time.monotonic()
        elif time.monotonic() - seen_s > NO_WORKER_TIMEOUT_S:
            raise TimeoutError
        time.sleep(RESULT_POLL_S)
    return False


def _connect(address: str) -> tuple[Any, Callable[..., Any]]:
    try:
        from distributed import Client, as_completed  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise ScenarioError(
            "a sweep on a Dask cluster needs the package distributed; install specplan[dask]"
        ) from None
    try:
        client = Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ScenarioError(
            f"no Dask scheduler answers at {address!r} ({type(error).__name__}); expected the "
            "address of a running one, as tcp://host:8786"
        ) from None
    return client, as_completed
