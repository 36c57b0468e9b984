"""Measure what is left of the combinations: `python -m tests.calibration.combinations.make_table`.

Run again until nothing is left: finished combinations are kept in out/. Every call writes
docs/combinations.json and docs/reference/combinations.md; what is left stands there as not
measured.
"""

import argparse
import datetime
import sys
import time
from pathlib import Path

from calibration.environment import prepare_environment

prepare_environment()

import torch

from calibration import provenance
from calibration.distill import DistillSettings, distilled_draft
from calibration.model.target import load_decoder
from calibration.models import load_model
from calibration.promptset import encode_prompts, read_prompts
from calibration.workfolder import WorkFolder
from tests.calibration.combinations.listing import ALL, DEPTH, TOPOLOGIES
from tests.calibration.combinations.measure import Models, measured
from tests.calibration.combinations.page import JSON_FILE, PAGE, as_text, render

DOMAINS = ("chat", "code", "rewrite")
SETTINGS = {
    "dtype": "bfloat16",
    "threads": 1,
    "requests_per_domain": 4,
    "max_tokens": 20,
    "seed": 0,
    "skip_layers": 24,
    "version": 1,
}
UNFINISHED = 3
WORK = Path(__file__).parents[3] / "out" / JSON_FILE.name


def main() -> None:
    """Measure for at most `--seconds`, then say what is left or write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=200.0, help="begin nothing after these")
    until_s = time.monotonic() + parser.parse_args().seconds
    torch.set_num_threads(SETTINGS["threads"])
    models, prompts = _loaded()
    work = WorkFolder(WORK, SETTINGS | {"draft": models.draft.identity.revision}, resume=True)
    wanted = list(dict.fromkeys(one.measured_as for one in ALL if one.is_allowed))
    for one in wanted:
        if work.load(one.name) is None and time.monotonic() < until_s:
            took = time.monotonic()
            found = measured(one, models, prompts, SETTINGS["max_tokens"], SETTINGS["seed"])
            work.save(one.name, found)
            sys.stderr.write(f"{one.name}: {time.monotonic() - took:.1f} s\n")
    left = [one.name for one in wanted if work.load(one.name) is None]
    result = _head(models) | {"combinations": [_entry(one, work) for one in ALL]}
    JSON_FILE.write_text(as_text(result), encoding="utf-8")
    PAGE.write_text(render(result), encoding="utf-8")
    if left:
        sys.stderr.write(f"{len(left)} of {len(wanted)} combinations are left; run it again\n")
        sys.exit(UNFINISHED)
    work.remove()


def _loaded() -> tuple[Models, dict[str, list[list[int]]]]:
    folder = distilled_draft(load_model(None, SETTINGS["dtype"], "cpu"), DistillSettings())
    target, draft = (load_decoder(path, SETTINGS["dtype"], "cpu") for path in (None, folder))
    chosen = read_prompts(None, SETTINGS["requests_per_domain"])
    encoded = encode_prompts(
        {name: chosen[name] for name in DOMAINS}, target.tokenizer, target.identity.vocab_size
    )
    return Models(target, draft, SETTINGS["skip_layers"]), encoded


def _head(models: Models) -> dict:
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": "python -m tests.calibration.combinations.make_table",
        "versions": provenance.versions(),
        "cpu": provenance.cpu_name(),
        "target": models.target.identity.name,
        "target_revision": models.target.identity.revision,
        "draft": f"{models.draft.decoder.shape.num_layers} of the target's layers, distilled",
        "draft_revision": models.draft.identity.revision,
        "target_layers": models.target.decoder.shape.num_layers,
        "settings": SETTINGS,
        "domains": list(DOMAINS),
        "depth": DEPTH,
        "topologies": {name: _described(topology) for name, topology in TOPOLOGIES.items()},
    }


def _described(topology) -> str:
    if hasattr(topology, "parents"):
        return f"parents {', '.join(map(str, topology.parents))}"
    return f"top {topology.topk} a node, {topology.depth} deep, best {topology.num_nodes}"


def _entry(one, work: WorkFolder) -> dict:
    reasons = one.reasons()
    entry = {
        "proposer": one.proposer,
        "topology": one.topology,
        "contract": one.contract,
        "label": one.rule.label,
    }
    if reasons:
        return entry | {"refused": list(reasons)}
    same = one.measured_as
    return entry | {
        "measured_as": same.contract,
        "tests": list(one.tests),
        **(work.load(same.name) or {} if same == one else {}),
    }


if __name__ == "__main__":
    main()
