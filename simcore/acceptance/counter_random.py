"""Counter-based random numbers: a pure function of (seed, stream, request, position).

Batch order, preemption and the policy under test cannot change a request's luck, so scenarios
are compared under common random numbers. The mixer is splitmix64's finaliser (Steele, Lea,
Flood 2014), applied to each key in turn.
"""

import numpy as np

from simcore.compiled import compiled

STREAM_ACCEPTANCE = np.uint64(1)
STREAM_MATCH = np.uint64(2)
STREAM_STITCH = np.uint64(3)
STREAM_FAULT = np.uint64(4)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53


@compiled
def _mix(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    return word ^ (word >> np.uint64(31))


@compiled
def uniform(seed: np.uint64, stream: np.uint64, request: int, position: int) -> float:
    """A number in [0, 1) that these four keys always give."""
    word = _mix(seed + _GOLDEN * stream)
    word = _mix(word + _GOLDEN * np.uint64(request + 1))
    word = _mix(word + _GOLDEN * np.uint64(position + 1))
    return float(word >> np.uint64(11)) * _TO_UNIT
