"""Engine settings of a plan, ready to paste: a command for vLLM and one for SGLang."""

from simcore.planner.document import Plan
from simcore.report.engine import EngineSettings, choice_of
from simcore.report.own_proposers import settings_or_refusal
from simcore.report.sglang_flags import sglang_settings
from simcore.report.vllm_flags import vllm_settings

__all__ = ["EngineSettings", "engine_settings", "shell_script"]


def engine_settings(plan: Plan) -> dict[str, EngineSettings]:
    """Settings by engine; where the decision is off, without any speculative flag."""
    choice = choice_of(plan)
    return {
        "vllm": settings_or_refusal(choice, vllm_settings),
        "sglang": settings_or_refusal(choice, sglang_settings),
    }


def shell_script(settings: EngineSettings) -> str:
    """The command as a script; one that must be refused says so and stops before it."""
    made_for = _comment(f"{settings.engine} {settings.version}")
    lines = ["#!/usr/bin/env bash", f"# {made_for}, by specplan"]
    lines += [f"# {_comment(note)}" for note in settings.notes]
    lines.append("set -euo pipefail")
    if settings.refusal is not None:
        lines += [f"echo 'refused: {_comment(settings.refusal)}' >&2", "exit 1"]
    return "\n".join([*lines, f"exec {settings.command}", ""])


def _comment(text: str) -> str:
    """One line of plain words: whatever a shell might read otherwise becomes a low line."""
    line = " ".join(text.split())
    return "".join(sign if sign.isalnum() or sign in " .,:;()/=+%-γ" else "_" for sign in line)
