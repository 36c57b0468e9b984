"""The ways to serve that a recommendation compares: off, draft lengths, policies, trees.

A policy's numbers come from this service: thresholds of a batch-size table from its cost law and
recordings, a gate's bound from its break-even. What no engine of the deployment runs is simulated
too, as a yardstick, and not recommended.
"""

from dataclasses import dataclass
from typing import Any

from simcore.engines import RULES
from simcore.planner.batch_table import TokenTimes, best_rows, token_times
from simcore.planner.load.basis import LoadBasis
from simcore.planner.recommendation import Pruned, WayRow
from simcore.planner.replication import at_fixed_length
from simcore.scenario import Scenario
from simcore.speculation import Speculation

# Engines that have such a policy; from the limits that simcore/report states per engine.
ENGINES_OF = {
    "off": ("vllm", "sglang", "tensorrt_llm", "llama_cpp"),
    "fixed": ("vllm", "sglang", "tensorrt_llm", "llama_cpp"),
    "batch_size_table": ("vllm", "sglang", "tensorrt_llm"),
    "adaptive_ema": ("sglang",),
    "acceptance_gate": ("tensorrt_llm",),
    "tree": ("sglang",),
}
EAGLE_ONLY_IN_SGLANG = ("batch_size_table", "adaptive_ema")
SIMPLICITY = (  # what is shipped where ways cannot be told apart: the first
    *("off", "fixed", "batch_size_table", "acceptance_gate", "adaptive_ema", "tree"),
    *("memory_pressure", "adaptive_verification", "goodput"),
)
EMA_CANDIDATES = (1, 3, 7)  # SGLang's default
LEAST_LENGTHS = 2  # of a policy that chooses between draft lengths


@dataclass(frozen=True)
class WayToServe:
    """A way before it is simulated."""

    label: str
    kind: str
    speculation: Speculation
    proposer: str  # whose recordings it replays; of off as of the others
    rows: tuple[WayRow, ...] = ()

    @property
    def simplicity(self) -> int:
        """Its place among what is simple to run; less is simpler."""
        return SIMPLICITY.index(self.kind)


def fixed_way(scenario: Scenario, proposer: str, length: int) -> WayToServe:
    """One draft length; 0: off."""
    fixed = at_fixed_length(scenario, scenario.seed, proposer if length else None, length)
    label = f"{proposer}, γ = {length}" if length else "off"
    return WayToServe(label, "fixed" if length else "off", fixed.speculation, proposer)


def oracle_way(scenario: Scenario, proposer: str, longest: int) -> WayToServe:
    """Drafts exactly what will be accepted: a bound, never a candidate."""
    speculation = _with_policy(scenario, proposer, longest, {"kind": "oracle"})
    return WayToServe(f"{proposer}, oracle", "oracle", speculation, proposer)


class PolicyWays:
    """Policies between the draft lengths of one proposer."""

    def __init__(self, scenario: Scenario, basis: LoadBasis, lengths: tuple[int, ...]) -> None:
        self.scenario, self.basis, self.lengths = scenario, basis, lengths
        self.proposer = basis.proposer
        self.kind = basis.stored.profile.proposers[self.proposer].kind
        self.times: TokenTimes = token_times(scenario, basis, lengths)
        self.ways: list[WayToServe] = []
        self.pruned: list[Pruned] = []

    @property
    def is_recorded(self) -> bool:
        """Whether every length has its acceptance: survival by position serves only its own."""
        return self.basis.traces is not None or self.scenario.speculation.acceptance in (
            "iid",
            "heterogeneous",
        )

    def build(self, best_length: int) -> None:
        """All that this service can be asked; `best_length` of the fixed ones at its load."""
        self._table(best_length)
        self._goodput()
        preset = self.scenario.deployment.preset
        if preset == "sglang":
            self._moving_average()
        if preset == "tensorrt_llm":
            self._gate(best_length)
        if preset == "vllm":
            self._adaptive_verification(best_length)

    def _table(self, best_length: int) -> None:
        seats = self.scenario.deployment.max_num_seqs
        rows = best_rows(self.times, seats)
        if not self.is_recorded:
            self._prune_unrecorded(rows)
            own = {0, best_length}
            rows = best_rows(_only(self.times, own), seats)
        label = f"{self.proposer}, batch-size table {_by_length(rows)}"
        if len(rows) < LEAST_LENGTHS:
            length, shown = rows[0].num_speculative_tokens, max(self.lengths)
            among = f"0 to {shown}" if self.is_recorded else f"0 and {best_length}"
            self.pruned.append(
                Pruned(
                    label=f"{self.proposer}, batch-size table",
                    reason=f"of draft lengths {among}, {length} is the best at every batch up to "
                    f"{seats}, by the closed form",
                )
            )
            return
        table = [[row.first, row.last, row.num_speculative_tokens] for row in rows]
        longest = max(row.num_speculative_tokens for row in rows)
        self._add(label, longest, {"kind": "batch_size_table", "table": table}, rows)

    def _prune_unrecorded(self, rows: tuple[WayRow, ...]) -> None:
        if len({row.num_speculative_tokens for row in rows} - {0}) < LEAST_LENGTHS:
            return
        steps = ", ".join(f"{row.num_speculative_tokens} from batch {row.first}" for row in rows)
        self.pruned.append(
            Pruned(
                label=f"{self.proposer}, batch-size table {_by_length(rows)}",
                reason=f"by the closed form: {steps}; to simulate it takes recorded requests: "
                "acceptance by position serves one draft length only",
            )
        )

    def _goodput(self) -> None:
        if not self.is_recorded or len(self.lengths) < LEAST_LENGTHS:
            return
        policy = {"kind": "goodput", "candidates": [0, *self.lengths]}
        longest = max(self.lengths)
        self._add(f"{self.proposer}, goodput up to γ = {longest}", longest, policy)

    def _moving_average(self) -> None:
        candidates = [each for each in EMA_CANDIDATES if each in self.lengths]
        if not self.is_recorded or len(candidates) < LEAST_LENGTHS:
            return
        policy = {"kind": "adaptive_ema", "candidates": candidates}
        name = "/".join(map(str, candidates))
        self._add(f"{self.proposer}, moving average {name}", max(candidates), policy)

    def _gate(self, length: int) -> None:
        """Off for good below the acceptance at which a full batch breaks even."""
        ratio = float(self.times.of(length)[-1] / self.times.plain_s[-1])
        law = self.basis.cycle_law(
            at_fixed_length(self.scenario, 0, self.proposer, length),
            self._mode(length),
        )
        tokens = max(float(self.basis.requests.output_tokens.mean()) - 1.0, 1.0)
        emitted = tokens / max(law.mean_cycles, 1e-300)
        threshold = (emitted * ratio - 1.0) / max(law.drafted_depth, 1e-300)
        if not 0.0 < threshold < 1.0:
            self.pruned.append(
                Pruned(
                    label=f"{self.proposer}, acceptance gate",
                    reason="at a full batch no share of accepted drafts breaks even",
                )
            )
            return
        policy = {"kind": "acceptance_gate", "threshold": round(threshold, 3)}
        self._add(f"{self.proposer}, γ = {length} with gate {threshold:.3f}", length, policy)

    def _adaptive_verification(self, length: int) -> None:
        if not self.is_recorded:
            return
        policy = {"kind": "adaptive_verification"}
        self._add(f"{self.proposer}, adaptive verification of γ = {length}", length, policy)

    def _mode(self, length: int) -> Any:
        return at_fixed_length(self.scenario, 0, self.proposer, length).speculation.modes()[length]

    def _add(
        self, label: str, longest: int, policy: dict[str, Any], rows: tuple[WayRow, ...] = ()
    ) -> None:
        speculation = _with_policy(self.scenario, self.proposer, longest, policy)
        kind = str(policy["kind"])
        self.ways.append(WayToServe(label, kind, speculation, self.proposer, rows))


def own_way(scenario: Scenario) -> WayToServe | None:
    """The scenario's own policy or tree; None where it states a fixed chain or none."""
    asked = scenario.speculation
    if asked.num_speculative_tokens == 0 or asked.proposer is None or asked.policy.kind == "oracle":
        return None
    is_tree = asked.schemes()[0].is_tree
    if asked.policy.kind == "fixed" and not is_tree:
        return None
    kind = "tree" if is_tree else asked.policy.kind
    words = kind.replace("_", " ") if asked.policy.kind != "fixed" else "tree"
    label = f"{asked.proposer}, the scenario's own {words}"
    return WayToServe(label, kind, asked, asked.proposer)


def tree_way(scenario: Scenario, proposer: str, parents: tuple[int, ...], depth: int) -> WayToServe:
    """A static tree by the parent of each candidate."""
    fixed = at_fixed_length(scenario, scenario.seed, proposer, 0)
    speculation = fixed.with_(
        **{
            "speculation.proposer": proposer,
            "speculation.num_speculative_tokens": depth,
            "speculation.tree": list(parents),
        }
    ).speculation
    label = f"{proposer}, tree of {len(parents)} candidates, {depth} deep"
    return WayToServe(label, "tree", speculation, proposer)


def served_by(way: WayToServe, proposer_kind: str) -> tuple[str, ...]:
    """Engines that have such a policy for such a proposer."""
    engines = ENGINES_OF.get(way.kind, ())
    if way.kind in EAGLE_ONLY_IN_SGLANG and proposer_kind != "eagle":
        engines = tuple(name for name in engines if name != "sglang")
    if way.kind == "tree" and (proposer_kind == "ngram" or way.speculation.policy.kind != "fixed"):
        engines = ()
    return engines


def why_not(way: WayToServe, scenario: Scenario, engines: tuple[str, ...]) -> str:
    """Why a way may not be recommended; empty where it may."""
    preset = scenario.deployment.preset
    if way.kind == "oracle":
        return "no engine knows what will be accepted"
    if not engines:
        return "no engine that settings are written for runs it"
    if preset != "plain" and preset not in engines:
        return f"{RULES[preset].engine} does not run it"
    return ""


def _only(times: TokenTimes, lengths: set[int]) -> TokenTimes:
    kept = [place for place, length in enumerate(times.lengths) if length in lengths]
    return TokenTimes(
        times.batch_sizes,
        tuple(times.lengths[place] for place in kept),
        times.token_s[kept],
        times.plain_s,
    )


def _by_length(rows: tuple[WayRow, ...]) -> str:
    return "/".join(str(row.num_speculative_tokens) for row in rows)


def _with_policy(
    scenario: Scenario, proposer: str, longest: int, policy: dict[str, Any]
) -> Speculation:
    fixed = at_fixed_length(scenario, scenario.seed, proposer, longest)
    return fixed.with_(**{"speculation.policy": policy}).speculation
