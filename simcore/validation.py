"""Turn pydantic's findings into one sentence: where, what it got, what it expected."""

from pydantic import ValidationError

MAX_SHOWN_CHARACTERS = 60


def describe_validation_error(error: ValidationError | ValueError) -> str:
    """One line for the first few findings; long values are cut."""
    if not isinstance(error, ValidationError):
        return str(error)
    findings = [_describe(item) for item in error.errors(include_url=False)[:3]]
    more = error.error_count() - len(findings)
    return "; ".join(findings) + (f"; and {more} more" if more > 0 else "")


def _describe(item: object) -> str:
    assert isinstance(item, dict)
    where = ".".join(str(part) for part in item["loc"]) or "the whole"
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        return f"{where}: unknown field; remove it or check its spelling"
    if item["type"] == "missing":
        return f"{where}: missing; add it"
    if item["type"] == "too_short" and not item.get("input"):
        return f"{where}: empty; give at least one"
    if isinstance(item.get("input"), dict):  # a rule between fields names what it got by itself
        return f"{where}: {message}" if item["loc"] else message
    got = repr(item.get("input"))
    shown = got if len(got) <= MAX_SHOWN_CHARACTERS else got[: MAX_SHOWN_CHARACTERS - 1] + "…"
    return f"{where}: got {shown}; {message[0].lower() + message[1:]}"
