"""A scenario as a few hundred characters of the page's address, and back."""

import base64
import binascii
import json
import zlib

from simcore.errors import ScenarioError
from simcore.scenario import DATA_PATHS, Scenario, parse_scenario

PARAMETER = "scenario"
MAX_BYTES = 200_000  # of the scenario's JSON: a link may come from anybody
NOT_A_LINK = "the link holds no scenario that can be read; expected a whole, unchanged address"


def encode(scenario: Scenario) -> str:
    """Letters, digits, - and _ only. Every field is written: defaults may depend on the preset."""
    raw = json.dumps(scenario.model_dump(mode="json"), separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(zlib.compress(raw.encode(), 9)).decode().rstrip("=")


def decode(text: str) -> Scenario:
    """The scenario of `encode`. Raises ScenarioError for anything else."""
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        unpacking = zlib.decompressobj()
        raw = unpacking.decompress(packed, MAX_BYTES)
        if not unpacking.eof:
            raise ScenarioError(NOT_A_LINK)
        value = json.loads(raw)
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        raise ScenarioError(NOT_A_LINK) from None
    scenario = parse_scenario(value, "the link")
    refuse_files(scenario, "the link")
    return scenario


def refuse_files(scenario: Scenario, origin: str) -> None:
    """Raise ScenarioError where a visitor's scenario names files of the server."""
    named = [dotted for dotted in DATA_PATHS if _field(scenario, dotted) is not None]
    if named:
        raise ScenarioError(
            f"{origin} names a file in workload.{named[0]}; expected a workload without files: "
            "the dashboard reads none for its visitors"
        )


def _field(scenario: Scenario, dotted: str) -> object:
    found: object = scenario.workload
    for part in dotted.split("."):
        found = getattr(found, part, None)
    return found
