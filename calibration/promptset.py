"""The prompts that are decoded: the shipped ones, or a user's JSON Lines file."""

import json
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from calibration.errors import CalibrationError

SHIPPED = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class Prompt:
    """One request: its domain and either text, which gets the chat template, or token ids."""

    domain: str
    text: str = ""
    token_ids: tuple[int, ...] = ()


def read_prompts(path: Path | None, per_domain: int) -> dict[str, list[Prompt]]:
    """Domain -> at most `per_domain` prompts of `path` (None: shipped), in the file's order."""
    if per_domain < 1:
        raise CalibrationError(f"{per_domain} prompts per domain; expected at least 1")
    files = sorted(SHIPPED.glob("*.jsonl")) if path is None else [path]
    domains: dict[str, list[Prompt]] = {}
    for file in files:
        for prompt in _read_file(file):
            chosen = domains.setdefault(prompt.domain, [])
            if len(chosen) < per_domain:
                chosen.append(prompt)
    if not domains:
        raise CalibrationError(
            f"no prompts in '{files[0].name if files else path}'; expected JSON lines "
            '{"domain": ..., "prompt": ...}; add at least one'
        )
    return domains


def prompt_token_ids(prompt: Prompt, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Token ids of a request: given ones as they are, text through the chat template."""
    if prompt.token_ids:
        return list(prompt.token_ids)
    if tokenizer.chat_template:
        turn = [{"role": "user", "content": prompt.text}]
        ids = tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)
    else:
        ids = tokenizer(prompt.text)["input_ids"]
    return [int(token) for token in ids]


def encode_prompts(
    domains: dict[str, list[Prompt]], tokenizer: PreTrainedTokenizerBase, vocab_size: int
) -> dict[str, list[list[int]]]:
    """Domain -> token ids of its prompts; refuses ids that the target does not know."""
    encoded = {
        domain: [prompt_token_ids(prompt, tokenizer) for prompt in prompts]
        for domain, prompts in domains.items()
    }
    for domain, requests in encoded.items():
        for ids in requests:
            if not ids or not all(0 <= token < vocab_size for token in ids):
                raise CalibrationError(
                    f"a prompt of domain '{domain}' has ids {ids[:4]}…; expected at least one, "
                    f"all in 0..{vocab_size - 1}; check that they are of this target's tokenizer"
                )
    return encoded


def _read_file(path: Path) -> list[Prompt]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(
            f"cannot read prompts '{path}': {error}; expected a JSON Lines file"
        ) from error
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return [_parse(line, f"{path.name}, line {number}") for number, line in numbered]


def _parse(line: str, where: str) -> Prompt:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise CalibrationError(
            f"{where} is not JSON ({error}); expected one object a line"
        ) from error
    is_object = isinstance(entry, dict)
    domain = entry.get("domain") if is_object else None
    text = entry.get("prompt", "") if is_object else ""
    ids = entry.get("ids", []) if is_object else []
    whole = isinstance(ids, list) and all(type(token) is int for token in ids)
    if not (isinstance(domain, str) and domain and isinstance(text, str) and whole):
        raise CalibrationError(
            f'{where}: got {line[:60]!r}; expected {{"domain": text, "prompt": text}} or '
            '{"domain": text, "ids": [integers]}'
        )
    if not text.strip() and not ids:
        raise CalibrationError(f"{where} has an empty prompt; expected some text or ids")
    return Prompt(domain, text, tuple(ids))
