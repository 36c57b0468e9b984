"""Energy and money that a run took: device time at the profile's power and price.

A figure that needs power or a price which the profile does not state is null, never assumed.
"""

from pydantic import Field

from simcore.profile.schema import Frozen, Hardware, Profile
from simcore.speculation import Speculation

SECONDS_PER_HOUR = 3600.0
MILLION = 1e6


class Consumption(Frozen):
    """What the whole run took, idle time included; null where power or price is unknown."""

    energy_j: float | None
    energy_j_per_output_token: float | None
    average_power_w: float | None = Field(description="of all devices together")
    cost_usd: float | None
    cost_usd_per_million_output_tokens: float | None


def consumption(
    hardware: Hardware,
    *,
    num_devices: int,
    busy_s: float,
    duration_s: float,
    output_tokens: int,
) -> Consumption:
    """Energy and cost of `num_devices` devices over `duration_s`.

    `busy_s` is the time in steps of one device, averaged over them; the rest is idle. Energy is
    devices · (busy power · busy time + idle power · idle time), cost is devices · hours · price.
    """
    energy_j = cost_usd = None
    if hardware.busy_power_w is not None and hardware.idle_power_w is not None:
        idle_s = duration_s - busy_s
        device_j = hardware.busy_power_w * busy_s + hardware.idle_power_w * idle_s
        energy_j = num_devices * device_j
    if hardware.price_usd_per_hour is not None:
        cost_usd = num_devices * duration_s / SECONDS_PER_HOUR * hardware.price_usd_per_hour
    return Consumption(
        energy_j=energy_j,
        energy_j_per_output_token=_per(energy_j, output_tokens),
        average_power_w=_per(energy_j, duration_s),
        cost_usd=cost_usd,
        cost_usd_per_million_output_tokens=_per(cost_usd, output_tokens / MILLION),
    )


def devices_of_a_replica(profile: Profile, speculation: Speculation) -> int:
    """The devices that one replica keeps: the target's, and one more for a proposer of its own.

    The profile describes one kind of device; a proposer placed on its own device takes one of it.
    """
    count = profile.identity.hardware.device_count
    if speculation.num_speculative_tokens == 0 or speculation.proposer is None:
        return count
    run = profile.cost.proposer_runs.get(speculation.proposer)
    return count + int(run is not None and run.placement == "own_device")


def _per(total: float | None, amount: float) -> float | None:
    return total / amount if total is not None and amount > 0 else None
