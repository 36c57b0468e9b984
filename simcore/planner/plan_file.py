"""Read a plan back from plan.json."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simcore.errors import PlanError
from simcore.json_text import DECODER, RepeatedKeyError
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
    raw = _read_json(path)
    if not looks_like_plan(raw):
        raise PlanError(
            f"{path} holds no plan (no {', '.join(sorted(ONLY_IN_PLANS))}); expected the "
            f"{PLAN_FILE} of `specplan plan --output`"
        )
    version = raw.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise PlanError(
            f"{path} has plan schema version {version!r}; this specplan reads {SCHEMA_VERSION}: "
            "make the plan again from its scenario.yaml"
        )
    try:
        plan = Plan.model_validate_json(json.dumps(raw))
    except (ValidationError, ValueError) as error:
        raise PlanError(
            f"{path} is no valid plan: {describe_validation_error(error)}; make it again from its "
            "scenario.yaml"
        ) from None
    _check_references(plan, path)
    return plan


def looks_like_plan(raw: object) -> bool:
    """Whether parsed JSON has what only plans have, whatever their version."""
    return isinstance(raw, dict) and set(raw) >= ONLY_IN_PLANS


def _read_json(path: Path) -> Any:
    try:
        return DECODER.decode(path.read_text(encoding="utf-8"))
    except RecursionError:
        reason = "it is nested too deeply"
    except RepeatedKeyError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:  # not UTF-8, not JSON
        reason = str(error)
    raise PlanError(f"cannot read {path}: {reason}; expected a whole {PLAN_FILE}")


def _check_references(plan: Plan, path: Path) -> None:
    """Off and the candidate of the break-even must be there; what ships is checked when used."""
    candidates = {(each.proposer, each.num_speculative_tokens) for each in plan.candidates}
    named = {(plan.break_even.proposer, plan.break_even.num_speculative_tokens), (None, 0)}
    if missing := named - candidates:
        shown = sorted("off" if name is None else f"{name} γ={gamma}" for name, gamma in missing)
        raise PlanError(
            f"{path} names candidates that it does not hold: {', '.join(shown)}; make it again "
            "from its scenario.yaml"
        )
