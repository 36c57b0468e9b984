"""Write a plan as a folder that can be handed on: it appears whole or not at all."""

import json
from pathlib import Path

from simcore.errors import SpecplanError
from simcore.folders import whole_folder
from simcore.planner.document import Plan
from simcore.planner.plan_file import PLAN_FILE, looks_like_plan
from simcore.report.alerts import alerts_yaml
from simcore.report.engine_metrics import METRICS
from simcore.report.flags import ENGINES, engine_settings, shell_script
from simcore.report.load_test import load_test, load_test_script
from simcore.report.render import render_html, render_markdown
from simcore.report.sglang_flags import ADAPTIVE_FILE
from simcore.report.tables_csv import candidates_csv, load_curve_csv
from simcore.report.tensorrt_llm_flags import CONFIG_FILE as TENSORRT_LLM_FILE
from simcore.scenario import dump_scenario

FILES = (
    "report.html",
    "report.md",
    PLAN_FILE,
    "candidates.csv",
    "load_curve.csv",
    "scenario.yaml",
    *(f"{name}.sh" for name in ENGINES),
    TENSORRT_LLM_FILE,
    *(f"alerts.{name}.yaml" for name in METRICS),
    "load_test.sh",
)
SOMETIMES = (ADAPTIVE_FILE,)  # where an engine's policy needs it


def write_report(plan: Plan, folder: Path | str) -> list[Path]:
    """Write FILES, and SOMETIMES others, to `folder`; an earlier plan there is replaced.

    Returns their paths. Raises SpecplanError where the folder holds anything else; after any
    error it is as it was.
    """
    folder = Path(folder).resolve()
    check_folder(folder)
    texts = render_files(plan)
    try:
        with whole_folder(folder) as work:
            for name, text in texts.items():
                (work / name).write_text(text, encoding="utf-8", newline="\n")
                (work / name).chmod(0o755 if name.endswith(".sh") else 0o644)
    except OSError as error:
        raise SpecplanError(f"cannot write {folder}: {error}; choose another folder") from None
    return [folder / name for name in texts]


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier plan. Raises SpecplanError."""
    folder = Path(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SpecplanError(f"{folder} is a file; expected a new or empty folder")
    found = {path.name for path in folder.iterdir()}
    if found and not _holds_plan(folder):
        raise SpecplanError(f"{folder} exists and holds no plan; choose an empty or new folder")
    if foreign := sorted(found - {*FILES, *SOMETIMES}):
        raise SpecplanError(
            f"{folder} holds {', '.join(foreign)} beside an earlier plan, which replacing it "
            "would delete; move that away, or choose another folder"
        )


def _holds_plan(folder: Path) -> bool:
    try:
        raw = json.loads((folder / PLAN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return looks_like_plan(raw)


def render_files(plan: Plan) -> dict[str, str]:
    """Name -> text of every file of the report."""
    settings = engine_settings(plan)
    texts = {
        "report.html": render_html(plan, settings),
        "report.md": render_markdown(plan, settings),
        PLAN_FILE: plan.model_dump_json(indent=1) + "\n",
        "candidates.csv": candidates_csv(plan),
        "load_curve.csv": load_curve_csv(plan),
        "scenario.yaml": dump_scenario(plan.scenario),
    }
    for name, each in settings.items():
        texts |= {f"{name}.sh": shell_script(each)} | dict(each.files)
    texts |= {f"alerts.{name}.yaml": alerts_yaml(plan, name) for name in METRICS}
    return texts | {"load_test.sh": load_test_script(load_test(plan))}
