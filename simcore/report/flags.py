"""Engine settings of a plan, ready to paste: vLLM, SGLang, TensorRT-LLM and llama.cpp."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from packaging.version import Version

from simcore.errors import SpecplanError
from simcore.planner.document import Plan
from simcore.report import llama_cpp_flags, sglang_flags, tensorrt_llm_flags, vllm_flags
from simcore.report.abilities import Limit, parse_version
from simcore.report.engine import Choice, EngineSettings, SettingsFile, choice_of
from simcore.report.own_proposers import settings_or_refusal

__all__ = ["ENGINES", "EngineSettings", "SettingsFile", "engine_settings", "shell_script"]


class EngineWriter(NamedTuple):
    """An engine, the versions that its settings are written for, and what these cannot do."""

    engine: str
    first: str
    last: str
    limits: tuple[Limit, ...]
    write: Callable[[Choice, Version], EngineSettings]


ENGINES = {
    "vllm": EngineWriter(
        "vLLM", vllm_flags.FIRST, vllm_flags.LAST, vllm_flags.LIMITS, vllm_flags.vllm_settings
    ),
    "sglang": EngineWriter(
        "SGLang",
        sglang_flags.FIRST,
        sglang_flags.LAST,
        sglang_flags.LIMITS,
        sglang_flags.sglang_settings,
    ),
    "tensorrt_llm": EngineWriter(
        "TensorRT-LLM",
        tensorrt_llm_flags.FIRST,
        tensorrt_llm_flags.LAST,
        tensorrt_llm_flags.LIMITS,
        tensorrt_llm_flags.tensorrt_llm_settings,
    ),
    "llama_cpp": EngineWriter(
        "llama.cpp",
        llama_cpp_flags.FIRST,
        llama_cpp_flags.LAST,
        llama_cpp_flags.LIMITS,
        llama_cpp_flags.llama_cpp_settings,
    ),
}


def engine_settings(
    plan: Plan, versions: Mapping[str, str] | None = None
) -> dict[str, EngineSettings]:
    """Settings by engine; where the decision is off, without any speculative flag.

    `versions` names another version of an engine than the last one written for. Raises
    SpecplanError for an unknown engine, or a version before the first.
    """
    versions = versions or {}
    if unknown := sorted(set(versions) - set(ENGINES)):
        raise SpecplanError(f"engine {unknown[0]!r}; expected one of {', '.join(ENGINES)}")
    choice = choice_of(plan)
    return {
        name: _settings(choice, each, versions.get(name, each.last))
        for name, each in ENGINES.items()
    }


def _settings(choice: Choice, each: EngineWriter, version: str) -> EngineSettings:
    parsed = parse_version(each.engine, version, each.first)
    return settings_or_refusal(choice, lambda asked: each.write(asked, parsed))


def shell_script(settings: EngineSettings) -> str:
    """The command as a script; one that must be refused says so and stops before it."""
    made_for = comment(f"{settings.engine} {settings.version}")
    lines = ["#!/usr/bin/env bash", f"# {made_for}, by specplan"]
    lines += [f"# {comment(note)}" for note in settings.notes]
    lines.append("set -euo pipefail")
    if settings.files:  # they lie beside the script
        lines.append('case "$0" in */*) cd -- "${0%/*}" ;; esac')
    if settings.refusal is not None:
        lines += [f"echo 'refused: {comment(settings.refusal)}' >&2", "exit 1"]
    return "\n".join([*lines, f"exec {settings.command}", ""])


def comment(text: str) -> str:
    """One line of plain words: whatever a shell might read otherwise becomes a low line."""
    line = " ".join(text.split())
    return "".join(sign if sign.isalnum() or sign in " .,:;()/=+%-γ" else "_" for sign in line)
