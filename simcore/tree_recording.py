"""Acceptance traces with what trees need of them: ranks, drawn children, places, confidences."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simcore.acceptance.topology.recorded_children import (
    COLUMNS,
    dense_lists,
    recorded_children,
)
from simcore.acceptance.topology.replay import RankArray
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.trace import RANK_ABSENT, TraceSet
from simcore.errors import TreeError
from simcore.profile.schema import AcceptanceRecord
from simcore.profile.store import StoredProfile
from simcore.version import specplan_version


@dataclass(frozen=True)
class TreeRecording:
    """Traces of the chosen records, with the optional columns that trees may need."""

    stored: StoredProfile
    proposer: str
    records: tuple[AcceptanceRecord, ...]
    traces: TraceSet
    seed: int = 0

    def children(self, rule: SiblingRule, width: int) -> RankArray:
        """[num_rows, depths] which child accepts each realised token (TreeError: not recorded)."""
        drawn = self._column(COLUMNS[rule]) if rule in COLUMNS else None
        return recorded_children(self.traces, rule, width, drawn=drawn, seed=self.seed)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """[num_rows, depths] the proposer's probability of its top candidate; 0 where none."""
        found = dense_lists(self._rows, "confidence", self.traces.max_gamma, 0.0)
        if found is None:
            raise TreeError("the recording holds no confidences; a dynamic tree needs them")
        return found

    def dynamic_order(self, topk: int, depth: int) -> RankArray | None:
        """[num_rows, depths] places in EAGLE-2's order; None unless recorded for this shape."""
        settings = self.stored.profile.proposers[self.proposer].settings
        if (settings.get("tree_topk"), settings.get("tree_depth")) != (topk, depth):
            return None
        return self._column("dynamic_order")

    def check_depth(self, depth: int) -> None:
        """Raise TreeError where a tree is deeper than what was recorded."""
        if depth > self.traces.max_gamma:
            raise TreeError(
                f"a tree of depth {depth}: the recording of {self.proposer!r} ends at depth "
                f"{self.traces.max_gamma}; use a shallower tree"
            )

    def origin(self, rule: SiblingRule) -> dict[str, Any]:
        """Where results come from, for every one of them to carry."""
        profile, first = self.stored.profile, self.records[0]
        return {
            "profile": profile.name,
            "profile_source": profile.source.value,
            "profile_sha256": self.stored.content_hash,
            "proposer": self.proposer,
            "contract": first.contract.value,
            "sampling": first.sampling.model_dump(),
            "domains": [record.domain for record in self.records],
            "rule": rule.value,
            "num_requests": self.traces.num_requests,
            "seed": self.seed,
            "specplan_version": specplan_version(),
        }

    def _column(self, name: str) -> RankArray | None:
        found = dense_lists(self._rows, name, self.traces.max_gamma, RANK_ABSENT)
        return None if found is None else found.astype(np.int16)

    @cached_property
    def _rows(self) -> pa.Table:
        table = self.stored.traces
        keys = [record.key for record in self.records]
        return table.filter(pa.array(np.isin(table.column("record").to_numpy(), keys)))
