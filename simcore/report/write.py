"""Write a plan as a folder that can be handed on: it appears whole or not at all."""

import shutil
import tempfile
from pathlib import Path

from simcore.errors import SpecplanError
from simcore.planner.document import Plan
from simcore.report.engine import find_proposers
from simcore.report.flags import engine_settings, shell_script
from simcore.report.render import render_html, render_markdown
from simcore.report.tables_csv import candidates_csv, load_curve_csv
from simcore.scenario import dump_scenario

PLAN_FILE = "plan.json"
FILES = (
    "report.html",
    "report.md",
    PLAN_FILE,
    "candidates.csv",
    "load_curve.csv",
    "scenario.yaml",
    "vllm.sh",
    "sglang.sh",
)


def write_report(plan: Plan, folder: Path, *, base: Path | None = None) -> list[Path]:
    """Write FILES to `folder` and return their paths; an earlier plan there is replaced.

    `base` is the folder that the scenario's profile path is relative to. Raises SpecplanError
    where the folder holds anything else; after any error the folder is as it was.
    """
    folder = Path(folder).resolve()
    check_folder(folder)
    texts = render_files(plan, base=base)
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, text in texts.items():
            (work / name).write_text(text, encoding="utf-8", newline="\n")
            (work / name).chmod(0o755 if name.endswith(".sh") else 0o644)
        work.chmod(0o755)
        _swap_in(work, folder)
    except OSError as error:
        raise SpecplanError(f"cannot write {folder}: {error}; choose another folder") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return [folder / name for name in texts]


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier plan. Raises SpecplanError."""
    folder = Path(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SpecplanError(f"{folder} is a file; expected a new or empty folder")
    found = {path.name for path in folder.iterdir()}
    if found and PLAN_FILE not in found:
        raise SpecplanError(f"{folder} exists and holds no plan; choose an empty or new folder")
    if foreign := sorted(found - set(FILES)):
        raise SpecplanError(
            f"{folder} holds {', '.join(foreign)} beside an earlier plan, which replacing it "
            "would delete; move that away, or choose another folder"
        )


def render_files(plan: Plan, *, base: Path | None = None) -> dict[str, str]:
    """Name -> text of every file of the report."""
    settings = engine_settings(plan, find_proposers(plan, base))
    texts = {
        "report.html": render_html(plan, settings),
        "report.md": render_markdown(plan, settings),
        PLAN_FILE: plan.model_dump_json(indent=1) + "\n",
        "candidates.csv": candidates_csv(plan),
        "load_curve.csv": load_curve_csv(plan),
        "scenario.yaml": dump_scenario(plan.scenario),
    }
    return texts | {f"{name}.sh": shell_script(each) for name, each in settings.items()}


def _swap_in(work: Path, folder: Path) -> None:
    """Put `work` in the place of `folder`; the old one comes back where that fails."""
    if not folder.exists():
        work.rename(folder)
        return
    old = work.with_name(f"{work.name}-old")
    folder.rename(old)
    try:
        work.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old)
