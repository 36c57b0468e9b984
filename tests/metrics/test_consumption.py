"""Energy and cost: hand-computed, and absent where the profile states nothing."""

import json

import pytest

from simcore import simulate, summarise
from simcore.cost.law import ProposerRun
from simcore.errors import ProfileError
from simcore.metrics.consumption import consumption, devices_of_a_replica
from simcore.profile.schema import Hardware
from simcore.profile.store import StoredProfile, bundled_profiles, load_profile
from simcore.report.text import summary_text
from tests.factories import make_scenario

KNOWN = {"busy_power_w": 700.0, "idle_power_w": 100.0, "price_usd_per_hour": 3.6}


def _hardware(**known: float) -> Hardware:
    return Hardware(device="cuda", name="invented GPU", memory_bytes=1, **known)


def _stating(stored: StoredProfile, **known: float) -> StoredProfile:
    """The same profile whose hardware states power and price."""
    identity = stored.profile.identity
    hardware = Hardware(**(identity.hardware.model_dump() | known))
    changed = identity.model_copy(update={"hardware": hardware})
    return StoredProfile(stored.profile.model_copy(update={"identity": changed}), stored.folder)


def test_energy_and_cost_are_those_computed_by_hand():
    # Two devices for 60 s, each 20 s in steps: 2 (700 · 20 + 100 · 40) = 36 kJ; 2 min at 3.6 $/h.
    found = consumption(
        _hardware(**KNOWN), num_devices=2, busy_s=20.0, duration_s=60.0, output_tokens=1000
    )
    assert found.energy_j == pytest.approx(36_000)
    assert found.energy_j_per_output_token == pytest.approx(36)
    assert found.average_power_w == pytest.approx(600)
    assert found.cost_usd == pytest.approx(0.12)
    assert found.cost_usd_per_million_output_tokens == pytest.approx(120)


def test_what_the_profile_does_not_state_is_null():
    spans = {"num_devices": 1, "busy_s": 1.0, "duration_s": 2.0, "output_tokens": 3}
    assert set(consumption(_hardware(), **spans).model_dump().values()) == {None}
    priced = consumption(_hardware(price_usd_per_hour=3600.0), **spans)
    assert (priced.energy_j, priced.average_power_w) == (None, None)
    assert priced.cost_usd == pytest.approx(2.0)
    powered = consumption(_hardware(busy_power_w=5.0, idle_power_w=1.0), **spans)
    assert powered.energy_j == pytest.approx(6.0)
    assert (powered.cost_usd, powered.cost_usd_per_million_output_tokens) == (None, None)


def test_a_run_without_output_has_no_energy_per_token():
    found = consumption(
        _hardware(**KNOWN), num_devices=1, busy_s=0.0, duration_s=10.0, output_tokens=0
    )
    assert found.energy_j == pytest.approx(1000)
    assert found.energy_j_per_output_token is None
    assert found.cost_usd_per_million_output_tokens is None


def test_a_runs_energy_is_that_of_its_steps_and_of_the_rest(recorded_profile):
    stored = _stating(recorded_profile, **KNOWN, device_count=4)
    scenario = make_scenario(stored, **{"deployment.replicas": 2})
    result = simulate(scenario, stored=stored)
    summary = summarise(result)
    steps = result.step_records
    busy_s = float((steps["end_s"] - steps["begin_s"]).sum())
    idle_s = 2 * summary.duration_s - busy_s
    assert 0.1 < busy_s / (busy_s + idle_s) < 0.9
    assert summary.consumption.energy_j == pytest.approx(4 * (700 * busy_s + 100 * idle_s))
    assert summary.consumption.cost_usd == pytest.approx(8 * summary.duration_s / 1000)
    tokens = result.request_records["emitted_tokens"].sum()
    per_million = summary.consumption.cost_usd_per_million_output_tokens
    assert per_million == pytest.approx(8 * summary.duration_s / 1000 / tokens * 1e6)


def test_a_proposer_on_its_own_device_takes_one_more_while_it_is_loaded(recorded_profile):
    profile = recorded_profile.profile
    runs = {"draft_model": ProposerRun(placement="own_device")}
    cost = profile.cost.model_copy(update={"proposer_runs": runs})
    profile = profile.model_copy(update={"cost": cost})
    asked = {"speculation.proposer": "draft_model"}
    loaded = make_scenario(recorded_profile, **asked)
    off = loaded.with_(**{"speculation.num_speculative_tokens": 0})
    ngram = make_scenario(recorded_profile)
    found = [devices_of_a_replica(profile, each.speculation) for each in (loaded, off, ngram)]
    assert found == [2, 1, 1]


def test_the_text_names_energy_and_cost_only_where_they_are_known(recorded_profile):
    def text(**known):
        stored = _stating(recorded_profile, **known)
        return summary_text(summarise(simulate(make_scenario(stored), stored=stored)))

    assert "Energy" not in text()
    assert "Cost" not in text()
    assert "Energy" in text(busy_power_w=2.0, idle_power_w=1.0)
    assert "USD a million output tokens" in text(price_usd_per_hour=1.0)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"busy_power_w": 700.0}, "expected both"),
        ({"busy_power_w": 50.0, "idle_power_w": 60.0}, "idle_power_w 60 above"),
        ({"price_usd_per_hour": -1.0}, "greater than or equal"),
    ],
)
def test_power_or_price_that_cannot_be_is_refused(recorded_profile, tmp_path, known, message):
    raw = recorded_profile.profile.model_dump(mode="json")
    raw["identity"]["hardware"] |= known
    (tmp_path / "profile.json").write_text(json.dumps(raw))
    with pytest.raises(ProfileError, match=message):
        load_profile(tmp_path)


@pytest.mark.parametrize("name", sorted(bundled_profiles()))
def test_a_bundled_profile_names_the_source_of_a_power_or_price_that_it_states(name):
    profile = load_profile(name).profile
    stated = [key for key in KNOWN if getattr(profile.identity.hardware, key) is not None]
    notes = " ".join(profile.provenance.notes)
    assert [key for key in stated if key not in notes] == []
