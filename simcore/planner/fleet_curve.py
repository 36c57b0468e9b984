"""What a growing load takes: replicas, devices, money and power, from a searched capacity.

By division: so many times the load that one replica was found to bear. A large fleet shares its
queue and may need fewer; `find_replicas` simulates one rate.
"""

import math

from pydantic import Field

from simcore.planner.capacity_document import Capacity, ServiceCapacity
from simcore.profile.schema import Frozen

MOST_REPLICAS = 8  # of the service that bears less a replica


class FleetStep(Frozen):
    """So many replicas, and the load up to which they do."""

    replicas: int
    up_to_rate_per_s: float = Field(description="replicas times the capacity of one")
    num_devices: int
    cost_usd_per_hour: float | None = Field(description="null without a price")
    power_w: float | None = Field(description="of all devices at up_to_rate_per_s; null without")


class FleetCurve(Frozen):
    """One service from its first replica on."""

    label: str
    steps: tuple[FleetStep, ...]


def fleet_curves(found: Capacity) -> tuple[FleetCurve, ...]:
    """Off and on up to the same load; one where they are the same.

    Empty where there is no rate: in a closed loop, or where no load meets the SLO.
    """
    both = (found.off,) if found.off == found.on else (found.off, found.on)
    services = [each for each in both if each.max_users is None and each.max_rate_per_s]
    if not services:
        return ()
    top_per_s = MOST_REPLICAS * min(_of_one(each) for each in services)
    return tuple(FleetCurve(label=each.label, steps=_steps(each, top_per_s)) for each in services)


def _of_one(service: ServiceCapacity) -> float:
    """Requests a second that one replica bears."""
    return (service.max_rate_per_s or 0.0) / service.scenario.deployment.replicas


def _steps(service: ServiceCapacity, top_per_s: float) -> tuple[FleetStep, ...]:
    one_per_s = _of_one(service)
    count = math.ceil(top_per_s / one_per_s - 1e-9)
    return tuple(_step(service, replicas, one_per_s) for replicas in range(1, count + 1))


def _step(service: ServiceCapacity, replicas: int, one_per_s: float) -> FleetStep:
    known, searched = service.economics, service.scenario.deployment.replicas
    assert known is not None  # stated wherever a load is borne
    devices = replicas * known.num_devices // searched
    price, power_w = known.price_usd_per_device_hour, known.average_power_w
    return FleetStep(
        replicas=replicas,
        up_to_rate_per_s=replicas * one_per_s,
        num_devices=devices,
        cost_usd_per_hour=None if price is None else devices * price,
        power_w=None if power_w is None else replicas * power_w / searched,
    )
