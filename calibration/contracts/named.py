"""Contracts by the names that options and outputs use."""

from calibration.contracts.block import BLOCK
from calibration.contracts.contract import VerificationContract
from calibration.contracts.greedy import GREEDY
from calibration.contracts.recursive_rejection import SEQUOIA, SPECINFER, TOKEN_WISE, TOP_K
from calibration.contracts.threshold import ThresholdAcceptance
from calibration.contracts.typical import TypicalAcceptance
from calibration.errors import CalibrationError
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Contract, Sampling

CONTRACTS: dict[str, VerificationContract] = {
    contract.name: contract
    for contract in (
        GREEDY,
        TOKEN_WISE,
        BLOCK,
        SPECINFER,
        SEQUOIA,
        TOP_K,
        TypicalAcceptance(),
        ThresholdAcceptance(),
    )
}
SHORT_NAMES = {
    "greedy": GREEDY.name,
    "typical": TypicalAcceptance().name,
    "threshold": ThresholdAcceptance().name,
}
BY_RULE = {
    SiblingRule.SPECINFER: SPECINFER,
    SiblingRule.SEQUOIA: SEQUOIA,
    SiblingRule.TOP_K: TOP_K,
}


def contract_named(
    name: str,
    *,
    is_chain: bool = True,
    siblings: SiblingRule = SiblingRule.TOP_K,
    is_greedy: bool = False,
) -> VerificationContract:
    """A contract by name; `exact` is greedy equality where decoding `is_greedy`, else the sampling
    rule of the topology and of its siblings.

    Raises CalibrationError for an unknown name.
    """
    if name == "exact" and is_greedy:
        return GREEDY
    if name in ("exact", Contract.EXACT_SAMPLING):
        return TOKEN_WISE if is_chain else BY_RULE[siblings]
    found = CONTRACTS.get(SHORT_NAMES.get(name, name))
    if found is None:
        raise CalibrationError(
            f"contract {name!r} is unknown; expected exact or one of "
            f"{sorted([*CONTRACTS, *SHORT_NAMES])}"
        )
    return found


def chain_contract(sampling: Sampling) -> VerificationContract:
    """Greedy equality at temperature 0, else token-wise rejection."""
    return GREEDY if sampling.temperature == 0.0 else TOKEN_WISE
