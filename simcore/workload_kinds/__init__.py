"""What a scenario may say of its workload; docs/reference/workloads.md lists every kind.

`simcore.workload` draws the requests.
"""

from simcore.workload_kinds.arrivals import (
    Arrivals,
    ArrivalState,
    BatchArrivals,
    ClosedLoopArrivals,
    GammaArrivals,
    MarkovModulatedArrivals,
    PoissonArrivals,
    RampArrivals,
    RecordedArrivals,
)
from simcore.workload_kinds.domain import DomainShare
from simcore.workload_kinds.lengths import (
    EmpiricalLengths,
    FileRowsLengths,
    FixedLengths,
    Lengths,
    LognormalLengths,
    LognormalTokens,
    RecordedLengths,
)
from simcore.workload_kinds.recording import FileFormat, Recording
from simcore.workload_kinds.sessions import Sessions, ThinkTime
from simcore.workload_kinds.workload import Workload

__all__ = [
    "ArrivalState",
    "Arrivals",
    "BatchArrivals",
    "ClosedLoopArrivals",
    "DomainShare",
    "EmpiricalLengths",
    "FileFormat",
    "FileRowsLengths",
    "FixedLengths",
    "GammaArrivals",
    "Lengths",
    "LognormalLengths",
    "LognormalTokens",
    "MarkovModulatedArrivals",
    "PoissonArrivals",
    "RampArrivals",
    "RecordedArrivals",
    "RecordedLengths",
    "Recording",
    "Sessions",
    "ThinkTime",
    "Workload",
]
