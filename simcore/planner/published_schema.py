"""The JSON schemas that specplan publishes: of a plan, a scenario and a profile."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

from simcore.planner.document import Plan
from simcore.profile.schema import Profile
from simcore.scenario import Scenario

DIALECT = "https://json-schema.org/draft/2020-12/schema"

DocumentKind = Literal["plan", "scenario", "profile"]
MODELS: Mapping[DocumentKind, type[BaseModel]] = {
    "plan": Plan,
    "scenario": Scenario,
    "profile": Profile,
}


def published_schema(kind: DocumentKind) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) that every valid document of this kind meets.

    It says what the fields are, with units, and their ranges; rules between fields are checked
    on reading only.
    """
    return {"$schema": DIALECT, **MODELS[kind].model_json_schema()}
