"""What points of one profile and workload share: sampled requests and their laws of cycles."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.model import realised
from simcore.acceptance.trace import TraceSet
from simcore.cost.price import LawTables, law_tables
from simcore.errors import ScenarioError
from simcore.matching import acceptance_model, load_traces, matching_records, mismatches
from simcore.planner.load.cycles import (
    CycleLaw,
    mixed_with_plain,
    plain_cycles,
    speculative_cycles,
)
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.serving.setup import first_fitting
from simcore.speculation import DraftMode
from simcore.workload.lengths import declared_max_tokens
from simcore.workload.load import as_batch
from simcore.workload.sampling import RequestBatch, sample_requests

FloatArray = NDArray[np.float64]

NUM_SAMPLED = 16_384  # requests that stand for the workload
NUM_SYNTHETIC = 512  # where a fitted model must first draw a recording for each
# Any but a scenario's own: an estimate is of the workload, not of the requests of one run.
SAMPLE_SEED = 20_240_229
NUM_PROMPTS = 8


@dataclass(frozen=True)
class LoadBasis:
    """What does not change between points, however γ, rate, seats or policy do.

    Holds one law of cycles a draft length, made when it is first asked for and kept.
    """

    stored: StoredProfile = field(repr=False)
    scenario: Scenario
    proposer: str
    requests: RequestBatch = field(repr=False)
    traces: TraceSet | None = field(repr=False)
    mismatches: tuple[str, ...]
    max_output_tokens: int  # that a request declares
    prompt_tokens: FloatArray  # [NUM_PROMPTS] equally likely lengths of prompts
    prompt_scv: float  # squared coefficient of variation of their lengths
    same_life: float  # E[min(S, S')] / E[S] of two outputs; 1: all alike
    _laws: dict[object, CycleLaw] = field(default_factory=dict, repr=False)
    _tables: dict[object, LawTables] = field(default_factory=dict, repr=False)

    def check(self, stored: StoredProfile, scenario: Scenario) -> None:
        """Raise ScenarioError where the scenario's requests are not those of this basis."""
        mine = _identity(self.scenario, self.proposer)
        theirs = _identity(scenario, scenario.speculation.proposer or self.proposer)
        changed = [name for name, value in theirs.items() if value != mine[name]]
        if stored.profile is not self.stored.profile:
            changed.insert(0, "profile")
        if changed:
            raise ScenarioError(
                f"the load basis was made for another {', '.join(changed)}; make a new one with "
                "load_basis(stored, scenario)"
            )

    def cycle_law(self, scenario: Scenario, mode: DraftMode) -> CycleLaw:
        """Cycles of the sampled requests under one draft mode of the scenario's speculation."""
        speculation = scenario.speculation
        key: object = 0
        if mode.depth > 0:
            key = (
                mode,
                speculation.num_speculative_tokens,
                speculation.tree,
                speculation.dynamic_tree,
                speculation.tree_rule,
                speculation.plain_fraction,
            )
        if key not in self._laws:
            self._laws[key] = self._new_law(scenario, mode)
        return self._laws[key]

    def _new_law(self, scenario: Scenario, mode: DraftMode) -> CycleLaw:
        requests, output = self.requests, self.requests.output_tokens
        if mode.depth == 0:
            return plain_cycles(output)
        gamma = scenario.speculation.num_speculative_tokens
        model = acceptance_model(self.stored, scenario, self.proposer, gamma, traces=self.traces)
        if model.fitted is not None:
            model = realised(model, requests.domain, output, SAMPLE_SEED)
            requests = replace(requests, trace=np.arange(len(output)))
        law = speculative_cycles(model.tables, mode.depth, requests)
        return mixed_with_plain(law, output, scenario.speculation.plain_fraction)

    def law_tables(self, scenario: Scenario) -> LawTables:
        """The cost law with the scenario's proposers loaded; none where speculation is off."""
        loaded: tuple[str, ...] = ()
        if scenario.speculation.num_speculative_tokens > 0:
            loaded = tuple(scheme.proposer for scheme in scenario.speculation.schemes())
        if loaded not in self._tables:
            first = loaded[0] if loaded else None
            law = self.stored.profile.cost
            self._tables[loaded] = law_tables(law, first, others=loaded[1:])
        return self._tables[loaded]


def load_basis(stored: StoredProfile, scenario: Scenario) -> LoadBasis:
    """Read the recordings and sample the workload, once for many points.

    Raises ScenarioError where the scenario does not fit its profile.
    """
    found = mismatches(stored, scenario)
    proposer = scenario.speculation.proposer or first_fitting(stored, scenario)
    traces = load_traces(stored, matching_records(stored, scenario, proposer))
    names = acceptance_model(stored, scenario, proposer, 0, traces=traces).domain_names
    count = NUM_SYNTHETIC if scenario.speculation.acceptance == "heterogeneous" else NUM_SAMPLED
    workload = as_batch(scenario.workload, count)
    if scenario.workload.sessions is not None:
        workload = workload.model_copy(update={"sessions": scenario.workload.sessions})
    requests = sample_requests(workload, names, traces, SAMPLE_SEED)
    return LoadBasis(
        stored=stored,
        scenario=scenario,
        proposer=proposer,
        requests=requests,
        traces=traces,
        mismatches=found,
        max_output_tokens=declared_max_tokens(scenario.workload, requests.output_tokens),
        prompt_tokens=_equal_parts(requests.prompt_tokens.astype(np.float64)),
        prompt_scv=float(requests.prompt_tokens.var() / requests.prompt_tokens.mean() ** 2),
        same_life=_same_life(requests.output_tokens.astype(np.float64)),
    )


def _identity(scenario: Scenario, proposer: str) -> dict[str, object]:
    """What a basis depends on, by the scenario's words."""
    workload = scenario.workload
    return {
        "contract": scenario.contract,
        "sampling": scenario.sampling,
        "proposer": proposer,
        "lengths": workload.lengths,
        "domains": workload.domains,
        "sessions": workload.sessions,
        "acceptance": scenario.speculation.acceptance,
        "allow_mismatch": scenario.allow_mismatch,
    }


def _equal_parts(values: FloatArray) -> FloatArray:
    """[NUM_PROMPTS, or fewer where there are fewer] means of equal parts of the sorted values."""
    count = min(NUM_PROMPTS, len(values))
    means = np.array([part.mean() for part in np.array_split(np.sort(values), count)])
    return np.asarray(means * (values.mean() / means.mean()))


def _same_life(values: FloatArray) -> float:
    """E[min(S, S')] / E[S]: with S sorted descending, rank i of n is the smaller 2i - 1 times."""
    falling = np.sort(values)[::-1]
    ranks = 2.0 * np.arange(len(values)) + 1.0
    return float(falling @ ranks / (len(values) * falling.sum()))
