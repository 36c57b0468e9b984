"""A plan with one text wherever a profile or a scenario may put free text."""

import json

from simcore.planner.document import Plan

TEXTS = (
    "<script>alert(1)</script>",
    "$(rm -rf ~)",
    "`touch /tmp/x`",
    '\' ; echo "pwned" #',
    "line\n# heading\n```\n---",
    "a|b [x](javascript:alert(1)) <img src=x onerror=alert(1)>",
)


def _planted_in(value: object, proposer: str, text: str) -> object:
    """Every label that names the proposer names the text; every free sentence is the text."""
    if isinstance(value, dict):
        found = {key: _planted_in(each, proposer, text) for key, each in value.items()}
        for key in ("reason", "why_not", "hysteresis", "batch_reason", "rate_reason", "sentence"):
            if found.get(key):
                found[key] = text
        if found.get("caveats"):
            found["caveats"] = [text]
        for key in ("asked", "measured", "what"):
            if key in found:
                found[key] = text
        return found
    if isinstance(value, list):
        return [_planted_in(each, proposer, text) for each in value]
    return value.replace(proposer, text) if isinstance(value, str) else value


def planted(plan: Plan, text: str) -> Plan:
    """The plan of a profile and a scenario whose every free text is `text`."""
    proposer = plan.decision.proposer
    assert proposer is not None
    raw = json.loads(plan.model_dump_json().replace(json.dumps(proposer), json.dumps(text)))
    for part in ("recommendation", "crossover", "sensitivity", "capacity"):
        raw[part] = _planted_in(raw[part], proposer, text)
    raw["scenario"]["name"] = text
    raw["scenario"]["profile"] = text
    raw["scenario"]["workload"]["domains"] = {text: 1.0}
    raw["decision"]["reason"] = text
    raw["break_even"]["reason"] = text
    raw["caveats"] = [text]
    raw["not_measured"] = [each | {"reason": text} for each in raw["not_measured"]]
    for each in raw["candidates"]:
        each["summary"]["origin"]["acceptance_model"] = text
    raw["origin"]["specplan_version"] = text
    card = raw["profile"]
    for each in card["proposers"].values():
        each["kind"] = "eagle"  # a kind is one of three words, never free text
    card["name"] = card["title"] = text
    card["provenance"] |= {"command": text, "date": text, "notes": [text], "citations": [text]}
    card["provenance"]["versions"] = {text: text}
    for key in ("name", "revision", "tokenizer", "quantization", "dtype"):
        card["identity"]["target"][key] = text
    card["identity"]["hardware"]["name"] = text
    card["identity"]["engine"] |= {"name": text, "version": text, "settings": {text: text}}
    return Plan.model_validate_json(json.dumps(raw))
