"""Price and power of a service's devices: the profile's own, or what the user states."""

from pydantic import Field

from simcore.metrics.consumption import devices_of_a_replica
from simcore.metrics.estimate import Estimate
from simcore.planner.capacity_document import Economics, Origin
from simcore.profile.schema import Frozen
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario

POWER = "consumption.average_power_w"
ENERGY = "consumption.energy_j_per_output_token"
COST = "consumption.cost_usd_per_million_output_tokens"


class GivenFigures(Frozen):
    """What the user states of one device, in place of the profile; None: nothing."""

    price_usd_per_hour: float | None = Field(None, ge=0.0)
    power_w: float | None = Field(None, ge=0.0)


def with_given(stored: StoredProfile, given: GivenFigures) -> StoredProfile:
    """The profile with the given price and power; a given power is drawn busy and idle alike."""
    changes: dict[str, float] = {}
    if given.price_usd_per_hour is not None:
        changes["price_usd_per_hour"] = given.price_usd_per_hour
    if given.power_w is not None:
        changes |= {"busy_power_w": given.power_w, "idle_power_w": given.power_w}
    if not changes:
        return stored
    identity = stored.profile.identity
    hardware = identity.hardware.model_copy(update=changes)
    identity = identity.model_copy(update={"hardware": hardware})
    profile = stored.profile.model_copy(update={"identity": identity})
    return StoredProfile(profile, stored.folder)


def num_devices(stored: StoredProfile, scenario: Scenario) -> int:
    """Devices of all replicas, a proposer's own included."""
    of_one = devices_of_a_replica(stored.profile, scenario.speculation)
    return of_one * scenario.deployment.replicas


def economics(
    stored: StoredProfile, scenario: Scenario, given: GivenFigures, metrics: dict[str, Estimate]
) -> Economics:
    """Devices, cost and energy of a run; `stored` with the given figures in it."""
    hardware = stored.profile.identity.hardware
    return Economics(
        num_devices=num_devices(stored, scenario),
        price_usd_per_device_hour=hardware.price_usd_per_hour,
        price_source=_source(given.price_usd_per_hour, hardware.price_usd_per_hour),
        cost_usd_per_million_output_tokens=metrics[COST].mean,
        power_source=_source(given.power_w, hardware.busy_power_w),
        average_power_w=metrics[POWER].mean,
        energy_j_per_output_token=metrics[ENERGY].mean,
    )


def _source(given: float | None, known: float | None) -> Origin:
    if given is not None:
        return "given"
    return "not stated" if known is None else "profile"
