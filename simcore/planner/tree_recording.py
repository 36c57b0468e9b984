"""The recorded requests that a tree is valued on: one proposer, one contract and sampling."""

from simcore.acceptance.trace import trace_set_from_rows
from simcore.errors import ScenarioError
from simcore.matching import load_traces, matching_records
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.tree_recording import TreeRecording


def tree_recording(
    stored: StoredProfile,
    proposer: str,
    *,
    temperature: float | None = None,
    domains: tuple[str, ...] = (),
    seed: int = 0,
) -> TreeRecording:
    """The traces of one proposer at one temperature (None: the lowest recorded).

    Raises ScenarioError where the profile holds no such traces.
    """
    profile = stored.profile
    if proposer not in profile.proposers:
        raise ScenarioError(
            f"profile {profile.name!r} has no proposer {proposer!r}; it has "
            f"{sorted(profile.proposers)}"
        )
    own = [record for record in profile.acceptance if record.proposer == proposer]
    traced = [record for record in own if record.kind == "trace"]
    if not traced:
        raise ScenarioError(
            f"profile {profile.name!r} holds survival figures for {proposer!r}, no traces; a tree "
            "needs the ranks of recorded tokens: measure them"
        )
    temperatures = sorted({record.sampling.temperature for record in traced})
    wanted = temperatures[0] if temperature is None else temperature
    fitting = [record for record in traced if record.sampling.temperature == wanted]
    if not fitting:
        raise ScenarioError(
            f"profile {profile.name!r}, proposer {proposer!r}, was not recorded at temperature "
            f"{wanted:g}; it was at {temperatures}"
        )
    first = fitting[0]
    alike = [r for r in fitting if (r.contract, r.sampling) == (first.contract, first.sampling)]
    chosen = tuple(record for record in alike if not domains or record.domain in domains)
    if missing := set(domains) - {record.domain for record in alike}:
        raise ScenarioError(
            f"domains {sorted(missing)}: profile {profile.name!r} recorded {proposer!r} on "
            f"{sorted(record.domain for record in alike)}"
        )
    longest = min(record.max_num_speculative_tokens for record in chosen)
    traces = trace_set_from_rows(
        stored.traces, {record.key: record.domain for record in chosen}, longest
    )
    return TreeRecording(stored, proposer, chosen, traces, seed)


def scenario_recording(stored: StoredProfile, scenario: Scenario) -> TreeRecording | None:
    """The traces of the scenario's proposer, contract, sampling and domains; None without any.

    Raises ScenarioError where nothing was measured under them.
    """
    proposer = scenario.speculation.proposer
    assert proposer is not None
    records = matching_records(stored, scenario, proposer)
    traces = load_traces(stored, records)
    return None if traces is None else TreeRecording(stored, proposer, records, traces)
