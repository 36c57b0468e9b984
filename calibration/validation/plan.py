"""What is predicted and then measured: speculation off and on, at several loads."""

from typing import Any, NamedTuple

from pydantic import Field

from simcore.profile.schema import Frozen
from simcore.scenario import Scenario, parse_scenario

OFF = "off"
AT_ONCE = {"arrivals": {"kind": "batch"}, "lengths": {"kind": "recorded"}}


class CellName(NamedTuple):
    """One cell of the validation."""

    load: str
    proposer: str  # OFF: none is loaded

    def __str__(self) -> str:
        return f"{self.load}-{self.proposer}"


class Plan(Frozen):
    """The service and its loads, which are shares of what it serves with speculation off."""

    gammas: dict[str, int] = Field({"ngram": 4, "draft_model": 2}, description="by proposer")
    loads: dict[str, float] = Field(
        {"light": 0.35, "medium": 0.65, "heavy": 0.9}, description="shares of saturation, off"
    )
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 512
    kv_cache_tokens: int = 8192
    seeds: tuple[int, ...] = Field(tuple(range(10)), description="of the prediction's draws")

    def cells(self) -> list[CellName]:
        """Cells of one load are neighbours in time, so that a drift of the machine hits all."""
        return [CellName(load, name) for load in self.loads for name in (OFF, *self.gammas)]

    def scenario(
        self, proposer: str, workload: dict[str, Any] | None = None, seed: int = 0
    ) -> Scenario:
        """Greedy, nothing warmed up; `workload` is needed where requests are to be drawn."""
        speculation = {"proposer": proposer, "num_speculative_tokens": self.gammas.get(proposer, 0)}
        return parse_scenario(
            {
                "name": f"serving loop, {proposer}",
                "profile": "the loop's own",
                "contract": "greedy_equality",
                "sampling": {"temperature": 0.0},
                "workload": workload or AT_ONCE,
                "deployment": {
                    "max_num_seqs": self.max_num_seqs,
                    "max_num_batched_tokens": self.max_num_batched_tokens,
                    "kv_cache_tokens": self.kv_cache_tokens,
                },
                "speculation": {} if proposer == OFF else speculation,
                "warmup_fraction": 0.0,
                "seed": seed,
            },
            "the validation's scenario",
        )
