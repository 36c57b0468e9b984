"""The results of a validation: what is committed after the run."""

from calibration.validation.compare import ComparedCell, Decision
from simcore.profile.schema import Frozen, Hardware


class Results(Frozen):
    """Every comparison and where it comes from."""

    date: str
    command: str
    versions: dict[str, str]
    hardware: Hardware
    num_requests: int
    prediction_sha256: str
    own_prompts_sha256: str  # of the second prediction
    cells: tuple[ComparedCell, ...]
    decisions: tuple[Decision, ...]
