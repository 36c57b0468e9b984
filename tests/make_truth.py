"""Make simcore/truth/records.json from the results that the validations committed."""

import json
import sys
from pathlib import Path
from typing import Any

from simcore import truth
from simcore.truth import Cell, Choice, Figure, Study, Truth

ROOT = Path(__file__).parents[1]
ENGINES = ROOT / "tests" / "engines" / "results"
LOOP = ROOT / "docs" / "validation" / "loop" / "results.json"
TITLES = {
    "tiny": "llama.cpp's server, a pair of 3.7 M and 0.46 M parameters",
    "smollm2": "llama.cpp's server, SmolLM2-135M-Instruct in Q4_0",
}
LOOP_TITLE = "The package's own serving loop, SmolLM2-135M-Instruct in bfloat16"
UNITS = {"_tokens_per_s": "tokens/s", "_s": "s", "per_cycle": "tokens", "batch": "requests"}


def make() -> Truth:
    """Every study whose results are committed."""
    return Truth(studies=(*(_engine(name) for name in TITLES), _loop()))


def _engine(name: str) -> Study:
    folder = ENGINES / name
    compared = _read(folder / "compared.json")
    runs = [_read(path) for path in sorted(folder.glob("measured_*.json"))]
    return Study(
        name=f"llamacpp_{name}",
        title=TITLES[name],
        engine=runs[0]["engine"],
        date=runs[0]["date"][:10],
        command=runs[0]["command"],
        cells=tuple(
            Cell(name=cell, figures=_figures(figures))
            for cell, figures in compared["cells"].items()
        ),
        choices=tuple(Choice(cell=cell, **found) for cell, found in compared["on_or_off"].items()),
    )


def _loop() -> Study:
    found = _read(LOOP)
    return Study(
        name="serving_loop",
        title=LOOP_TITLE,
        engine=f"specplan {found['versions']['specplan']}, torch {found['versions']['torch']}",
        date=found["date"],
        command=found["command"],
        cells=tuple(
            Cell(name=f"{each['proposer']}/{each['load']}", figures=_figures(each["numbers"]))
            for each in found["cells"]
        ),
        choices=tuple(_choice(each) for each in found["decisions"]),
    )


def _choice(found: dict[str, Any]) -> Choice:
    """The loop's results give the change of E2E by speculating; a speed-up is its inverse."""
    return Choice(
        cell=f"{found['proposer']}/{found['load']}",
        predicted=1.0 / (1.0 + found["predicted_change"]),
        measured=1.0 / (1.0 + found["measured_change"]),
        noise=found["noise"],
        verdict=found["verdict"],
    )


def _figures(found: dict[str, Any]) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            metric=name,
            unit=next(unit for end, unit in UNITS.items() if name.endswith(end)),
            predicted=each["predicted"],
            measured=tuple(each["measured"]),
        )
        for name, each in found.items()
    )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    target = Path(truth.__file__).with_name(truth.FILE)
    target.write_text(make().model_dump_json(indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}: {len(make().studies)} studies\n")
