"""Read a plan back from plan.json."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simcore.errors import PlanError
from simcore.json_text import DECODER
from simcore.planner.document import Plan
from simcore.validation import describe_validation_error

PLAN_FILE = "plan.json"
SCHEMA_VERSION = 1
ONLY_IN_PLANS = {"decision", "break_even", "candidates"}


def read_plan(path: str | Path) -> Plan:
    """The plan in this file, or in the plan.json of this folder.

    Raises PlanError where it cannot be read, is damaged, is something else or was written under
    another schema version.
    """
    path = Path(path)
    if path.is_dir():
        path /= PLAN_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(str(path), reason) from None
    return parse_plan(text, str(path))


def parse_plan(text: str, origin: str) -> Plan:
    """The plan in the text of a plan.json; `origin` names it in errors. Raises PlanError."""
    raw = parse_json(text, origin)
    if not looks_like_plan(raw):
        raise PlanError(
            f"{origin} holds no plan (no {', '.join(sorted(ONLY_IN_PLANS))}); expected the "
            f"{PLAN_FILE} of `specplan plan --output`"
        )
    version = raw.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise PlanError(
            f"{origin} has plan schema version {version!r}; this specplan reads {SCHEMA_VERSION}: "
            "make the plan again from its scenario.yaml"
        )
    try:
        plan = Plan.model_validate_json(json.dumps(raw))
    except (ValidationError, ValueError) as error:
        raise PlanError(
            f"{origin} is no valid plan: {describe_validation_error(error)}; make it again from "
            "its scenario.yaml"
        ) from None
    _check_references(plan, origin)
    return plan


def looks_like_plan(raw: object) -> bool:
    """Whether parsed JSON has what only plans have, whatever their version."""
    return isinstance(raw, dict) and set(raw) >= ONLY_IN_PLANS


def parse_json(text: str, origin: str) -> Any:
    """The JSON in the text. Raises PlanError."""
    try:
        return DECODER.decode(text)
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:  # not JSON, or a key that stands twice
        reason = str(error)
    raise _unreadable(origin, reason)


def _unreadable(origin: str, reason: str) -> PlanError:
    return PlanError(f"cannot read {origin}: {reason}; expected a whole {PLAN_FILE}")


def _check_references(plan: Plan, origin: str) -> None:
    """Off and the candidate of the break-even must be there; what ships is checked when used."""
    candidates = {(each.proposer, each.num_speculative_tokens) for each in plan.candidates}
    named = {(plan.break_even.proposer, plan.break_even.num_speculative_tokens), (None, 0)}
    if missing := named - candidates:
        shown = sorted("off" if name is None else f"{name} γ={gamma}" for name, gamma in missing)
        raise PlanError(
            f"{origin} names candidates that it does not hold: {', '.join(shown)}; make it again "
            "from its scenario.yaml"
        )
