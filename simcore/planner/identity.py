"""What scenario and profile must agree on before any number counts, checked and shown."""

from simcore.engines import RULES
from simcore.matching import asked_for, matching_records, measured_as
from simcore.planner.recommendation import Fit, IdentityCheck
from simcore.profile.schema import Contract, Proposer, Sampling
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario

NOT_STATED = "not stated"


def identity_checks(
    stored: StoredProfile, scenario: Scenario, proposers: tuple[str, ...]
) -> tuple[IdentityCheck, ...]:
    """Contract, sampling, models, tokenizers, engine; a mismatch was refused before or is allowed.

    Raises ScenarioError where nothing fits and the scenario allows no mismatch.
    """
    identity = stored.profile.identity
    checks = [
        _check("target", scenario.target, identity.target.name),
        _check("target revision", None, identity.target.revision),
        _check(
            "numbers",
            None,
            f"{identity.target.dtype}, quantization {identity.target.quantization}",
        ),
    ]
    for name in proposers:
        checks += _proposer_checks(stored, scenario, name)
    engine = RULES[scenario.deployment.preset].engine
    measured = f"{identity.engine.name} {identity.engine.version}"
    same_engine = engine.split()[0].lower() == identity.engine.name.split()[0].lower()
    fit: Fit = "same" if same_engine else "differs"
    if scenario.deployment.preset == "plain":
        engine, fit = NOT_STATED, "not_stated"
    checks.append(IdentityCheck(what="engine", asked=engine, measured=measured, fit=fit))
    return tuple(checks)


def _proposer_checks(stored: StoredProfile, scenario: Scenario, name: str) -> list[IdentityCheck]:
    domains: dict[tuple[str, str], list[str]] = {}
    for record in matching_records(stored, scenario, name):
        pair = _words(*asked_for(scenario, record)), _words(*measured_as(record))
        domains.setdefault(pair, []).append(record.domain)
    checks = [
        _check(f"contract and sampling, {name} on {', '.join(found)}", *pair)
        for pair, found in domains.items()
    ]
    return checks + _tokenizer_checks(stored, name, stored.profile.proposers[name])


def _tokenizer_checks(stored: StoredProfile, name: str, proposer: Proposer) -> list[IdentityCheck]:
    if proposer.model is None:
        return []
    target = stored.profile.identity.target
    return [
        IdentityCheck(
            what=f"tokenizer of {name}",
            asked=f"{target.tokenizer}, {target.vocab_size} tokens",
            measured=f"{proposer.model.tokenizer}, {proposer.model.vocab_size} tokens",
            fit="same"
            if (proposer.model.tokenizer, proposer.model.vocab_size)
            == (target.tokenizer, target.vocab_size)
            else "differs",
        )
    ]


def _check(what: str, asked: str | None, measured: str) -> IdentityCheck:
    fit: Fit = "not_stated" if asked is None else ("same" if asked == measured else "differs")
    return IdentityCheck(what=what, asked=asked or NOT_STATED, measured=measured, fit=fit)


def _words(contract: Contract, sampling: Sampling) -> str:
    return (
        f"{contract.value}, temperature {sampling.temperature:g}, top-k "
        f"{sampling.top_k or 'off'}, top-p {sampling.top_p:g}"
    )
