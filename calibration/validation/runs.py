"""The measurement: every cell served for real, twice, by the same arrivals and limits."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from calibration.contracts.named import contract_named
from calibration.model.target import LoadedModel
from calibration.serve.proposing import Proposing
from calibration.serve.run import Served, serve
from calibration.serve.service import Service
from calibration.validation.kept_run import KeptRun
from calibration.validation.plan import CellName
from calibration.validation.predict import Prediction
from calibration.validation.rows import Row
from calibration.validation.workload import Prompts, requests_of, without_end

REPEATS = 2  # the same cell twice: their difference is the noise floor
MIN_CORE_SHARE = 0.9  # the loop never sleeps: with less, someone else ran on its core


@dataclass(frozen=True)
class Bed:
    """Everything that serves: models, prompts, and the prediction that says what runs."""

    prediction: Prediction
    rows: list[Row]
    prompts: Prompts
    target: LoadedModel
    proposing: Mapping[str, Proposing]

    def service(self, name: CellName) -> Service:
        """The loop of one cell."""
        rate_per_s = self.prediction.cell(name).rate_per_s
        return Service(
            self.prediction.plan.scenario(name.proposer),
            requests_of(self.rows, self.prompts, rate_per_s),
            without_end(self.target),
            self.proposing.get(name.proposer),
        )


def run_path(work: Path, name: CellName, repeat: int) -> Path:
    """Where a cell's run is kept."""
    return work / f"{name}-{repeat}.npz"


def run_missing(
    bed: Bed,
    work: Path,
    max_s: float,
    tell: Callable[[str], None] = lambda line: None,
    *,
    min_core_share: float = MIN_CORE_SHARE,
) -> int:
    """Run cells that `work` lacks, as many as are begun within `max_s`; how many are left.

    A repeat follows when every cell has run once, in reverse order: a drift of the machine is part
    of the noise and favours no cell.
    A run that had to share its core is set aside, whatever it measured, and runs again.
    """
    cells = bed.prediction.plan.cells()
    turns = [(name, n) for n in range(REPEATS) for name in (cells[::-1] if n % 2 else cells)]
    missing = [(name, n) for name, n in turns if not run_path(work, name, n).is_file()]
    begin_s = time.monotonic()
    for done, (name, repeat) in enumerate(missing):
        if time.monotonic() - begin_s >= max_s:
            return len(missing) - done
        service = bed.service(name)
        _serve(replace(service, requests=service.requests[:1]))  # a process's first passes are slow
        run, path = _timed(service), run_path(work, name, repeat)
        told = f"{name}, repeat {repeat}, {100 * run.core_share:.1f} % of a core"
        if run.core_share < min_core_share:
            path = _set_aside(path)
            told += ": set aside"
        run.save(path)
        tell(told)
    return sum(not run_path(work, name, n).is_file() for name, n in missing)


def _timed(service: Service) -> KeptRun:
    wall_s, processor_s = time.monotonic(), time.process_time()
    served = _serve(service)
    share = (time.process_time() - processor_s) / (time.monotonic() - wall_s)
    return KeptRun.of(served, share)


def _set_aside(path: Path) -> Path:
    others = len(list(path.parent.glob(f"{path.stem}.shared-*")))
    return path.with_name(f"{path.stem}.shared-{others}.npz")


def _serve(service: Service) -> Served:
    return serve(service, contract_named("greedy", is_chain=True))
