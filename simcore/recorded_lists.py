"""A profile's acceptance record as lists, whatever it counted: to be shown and compared."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.lists import AcceptanceLists
from simcore.acceptance.survival import survival_from_conditional
from simcore.acceptance.trace import trace_set_from_rows
from simcore.errors import AcceptanceError
from simcore.profile.conversions import conditional_acceptance, convertible_gammas, refusal
from simcore.profile.schema import AcceptanceRecord, Profile, ProfilePart
from simcore.profile.store import load_profile_or_part, read_checked

MOST_CYCLES = 200_000  # of a pooled record; more are thinned alike, which makes nothing surer

IntArray = NDArray[np.int64]


def lists_of_record(folder: Path, key: int | None) -> AcceptanceLists:
    """The record `key` of a profile or an import; its only one where `key` is None.

    Traces give every position; counts give cycles at the γ that they were counted at, each as a
    request of its own, as if cycles were independent: differences then look surer than they are.
    Raises AcceptanceError or ProfileError.
    """
    profile, folder = load_profile_or_part(folder)
    found = {record.key: record for record in profile.acceptance}
    if key is None and len(found) != 1:
        listed = ", ".join(
            f"{r.key} ({r.proposer}, {r.domain}, temperature {r.sampling.temperature:g})"
            for r in found.values()
        )
        raise AcceptanceError(f"{folder} holds the records {listed}; choose one with --record")
    record = next(iter(found.values())) if key is None else found.get(key)
    if record is None:
        raise AcceptanceError(f"{folder} holds no record {key}; it holds {sorted(found)}")
    if record.kind == "trace":
        return _positions(profile, folder, record)
    gammas = convertible_gammas(record)
    if not gammas:
        raise AcceptanceError(f"record {record.key}: {refusal(record, record.gammas()[-1])}")
    return _pooled({gamma: _histogram(record, gamma) for gamma in gammas})


def _positions(
    profile: Profile | ProfilePart, folder: Path, record: AcceptanceRecord
) -> AcceptanceLists:
    longest = record.max_num_speculative_tokens
    rows = read_checked(profile, folder, "traces")
    return AcceptanceLists.of_traces(
        trace_set_from_rows(rows, {record.key: record.domain}, longest)
    )


def _histogram(record: AcceptanceRecord, gamma: int) -> IntArray:
    """[γ + 1] cycles by accepted drafts, those without a draft included."""
    counts = record.counts.get(gamma)
    cycles = record.num_cycles.get(gamma) if counts is None else counts.num_cycles
    if cycles is None and counts is not None:
        cycles = counts.num_drafts
    if not cycles:
        raise AcceptanceError(
            f"record {record.key} states rates at γ = {gamma} and no number of cycles, so nothing "
            "says what is chance; measure counts"
        )
    reached = survival_from_conditional(conditional_acceptance(record, gamma))
    edges = np.rint(cycles * np.concatenate([[1.0], reached, [0.0]]))
    return np.asarray(-np.diff(edges), dtype=np.int64)


def _pooled(histograms: dict[int, IntArray]) -> AcceptanceLists:
    accepted: list[IntArray] = []
    gammas: list[IntArray] = []
    for gamma, counts in histograms.items():
        share = min(1.0, MOST_CYCLES / max(int(counts.sum()), 1))
        each = np.repeat(np.arange(gamma + 1), np.rint(counts * share).astype(np.int64))
        accepted.append(each)
        gammas.append(np.full(len(each), gamma))
    lengths = np.concatenate(accepted)
    return AcceptanceLists(
        tuple(lengths[:, None]), "cycle", lengths + 1, gamma=np.concatenate(gammas)
    )
