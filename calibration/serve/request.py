"""One real request: its tokens, when it comes, how it is decoded and where it ends."""

from dataclasses import dataclass, field

from calibration.contracts.contract import VerificationContract
from calibration.contracts.transforms import Transforms
from calibration.errors import CalibrationError


@dataclass(frozen=True)
class ServedRequest:
    """What a client asks."""

    prompt_ids: tuple[int, ...]
    max_tokens: int
    arrival_s: float = 0.0
    transforms: Transforms = field(default_factory=Transforms)
    contract: VerificationContract | None = None  # None: the service's
    stop_strings: tuple[str, ...] = ()
    adapter: str | None = None
    domain: str = "any"


def check_requests(requests: list[ServedRequest], vocab_size: int) -> None:
    """Raise CalibrationError for what no service could take in."""
    if not requests:
        raise CalibrationError("no requests to serve; expected at least one")
    for index, request in enumerate(requests):
        ids = request.prompt_ids
        if not ids or not all(0 <= token < vocab_size for token in ids):
            raise CalibrationError(
                f"request {index} has the prompt {list(ids[:4])}…; expected at least one token, "
                f"all in 0..{vocab_size - 1}"
            )
    arrivals = [request.arrival_s for request in requests]
    if arrivals != sorted(arrivals) or arrivals[0] < 0.0:
        raise CalibrationError(
            f"arrivals {arrivals[:4]}… are not in order from 0 s on; sort the requests by arrival"
        )
