"""What tells one run from another: a hash of everything that decides its numbers.

The whole scenario with its defaults, the content of its profile and of the recorded files that it
names, the seed, and the sources of the simulator itself. Names and paths do not count.
"""

import hashlib
import json
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from simcore.errors import ScenarioError
from simcore.planner.run_table import RESULTS_VERSION
from simcore.scenario import DATA_PATHS, Scenario

APART = (
    "commands",
    "planner",
    "report",
    "scenarios",
    "bench.py",
    "bench_sweep.py",
    "cli.py",
)  # change no run


def run_key(scenario: Scenario, profile_sha256: str) -> str:
    """sha256 over canonical JSON. Raises ScenarioError where a recorded file cannot be read."""
    raw = scenario.model_dump(mode="json", exclude={"name"})
    raw["profile"] = profile_sha256
    for dotted in DATA_PATHS:
        _replace_path(raw["workload"], dotted.split("."))
    content = {
        "results_version": RESULTS_VERSION,
        "simulator_sha256": simulator_sha256(),
        "scenario": raw,
    }
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


@cache
def simulator_sha256() -> str:
    """sha256 of the sources that a run's numbers come from."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if inside.parts[0] not in APART:
            digest.update(str(inside).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _replace_path(section: Any, parts: list[str]) -> None:
    """A file's content in place of its path, where the section names one."""
    *path, last = parts
    for part in path:
        section = section.get(part) if isinstance(section, dict) else None
    if isinstance(section, dict) and section.get(last) is not None:
        section[last] = file_sha256(Path(section[last]))


def file_sha256(path: Path) -> str:
    """sha256 of a file, read once and again when it has changed. Raises ScenarioError."""
    try:
        stat = path.stat()
        return _file_sha256(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise ScenarioError(
            f"cannot read {path}: {error.strerror}; expected a file of recorded requests"
        ) from None


@lru_cache(maxsize=64)
def _file_sha256(path: Path, _mtime_ns: int, _size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
