"""Read a plan that `specplan plan --output` wrote."""

from pathlib import Path

from pydantic import ValidationError

from simcore.errors import SpecplanError
from simcore.planner.document import Plan
from simcore.validation import describe_validation_error

PLAN_FILE = "plan.json"


def read_plan(path: Path) -> Plan:
    """The plan of a folder or of its plan.json. Raises SpecplanError."""
    file = path / PLAN_FILE if path.is_dir() else path
    try:
        return Plan.model_validate_json(file.read_text(encoding="utf-8"))
    except ValidationError as error:
        found = describe_validation_error(error)
        raise SpecplanError(
            f"{file} is no plan of this version: {found}; write it again with specplan plan"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecplanError(
            f"cannot read {file}: {error}; expected a folder that specplan plan --output wrote, "
            f"or its {PLAN_FILE}"
        ) from None
