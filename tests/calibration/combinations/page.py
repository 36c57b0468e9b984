"""The table of combinations as JSON and as a page."""

import json
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
JSON_FILE, PAGE = DOCS / "combinations.json", DOCS / "reference" / "combinations.md"


def as_text(result: dict) -> str:
    """One combination a line: small enough to read, and a new measurement is a readable change."""
    head = {name: value for name, value in result.items() if name != "combinations"}
    lines = [json.dumps(entry, ensure_ascii=False) for entry in result["combinations"]]
    opened = json.dumps(head, ensure_ascii=False, indent=1)[:-2]
    return opened + ',\n "combinations": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def render(result: dict) -> str:
    """The page."""
    entries = result["combinations"]
    measured = [entry for entry in entries if "domains" in entry]
    parts = [_opening(result, entries, measured), "## Acceptance and cycle time\n", _legend(result)]
    parts += [_proposer_table(name, measured, result) for name in _names(measured)]
    if left := _left(entries):
        lines = [f"- {one['proposer']}, {one['topology']}, {one['label']}" for one in left]
        parts += ["## Not measured yet\n", "\n".join(lines) + "\n"]
    parts += ["## One rule under several names\n", _same(entries)]
    parts += ["## Tests that hold the text\n", _tests(entries)]
    parts += ["## Refused\n", _refused(entries)]
    return "\n".join(parts)


def _names(entries: list[dict]) -> list[str]:
    return list(dict.fromkeys(entry["proposer"] for entry in entries))


def _opening(result: dict, entries: list[dict], measured: list[dict]) -> str:
    settings = result["settings"]
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    topologies = "; ".join(f"{name}: {text}" for name, text in result["topologies"].items())
    refused = sum("refused" in entry for entry in entries)
    shared = len(entries) - refused - len(measured) - len(_left(entries))
    left = _left(entries)
    missing = f", {len(left)} are not measured yet" if left else ""
    return f"""# Proposer × topology × contract, measured

What every combination does on a real target, in the
[serving loop](../background/real-decoding.md), and which test holds that its text is what its
[contract](../background/contracts.md) promises. Of {len(entries)}
combinations {refused} are refused before any work, {len(measured)} were run, and {shared} are one
of those under another name{missing}.

Made by `{result["command"]}` on {result["date"]} (run again until it has finished;
`docs/combinations.json` holds every figure). Target {result["target"]} in {settings["dtype"]}, one
torch thread on a core of its own ({result["cpu"]}); one request at a time, so that a step is one
cycle. Draft model: {result["draft"]}; layer skip drafts with {settings["skip_layers"]} of
{result["target_layers"]} layers, not trained for it. {settings["requests_per_domain"]} bundled
prompts a domain, at most {settings["max_tokens"]} tokens each, seed {settings["seed"]}; temperature
1, greedy apart. Topologies: {topologies}. Versions: {versions}.

These are few cycles: compare rows with their errors in mind. A time is this loop's, on this
processor, for one request; it says nothing about a batch.
"""


def _left(entries: list[dict]) -> list[dict]:
    """Allowed, of a rule of their own, and without a measurement."""
    return [
        entry
        for entry in entries
        if entry.get("measured_as") == entry["contract"] and "domains" not in entry
    ]


def _legend(result: dict) -> str:
    return f"""`s1` … `s{result["depth"]}`: share of cycles that accepted at least so many drafts,
counted at cycle starts before any cut, cycles without a draft included. ± is the standard error by
resampling whole requests; ±0 where no request or every one did so. E[Y] = 1 + their sum. Times are
medians over the cycles of all three domains, in milliseconds; the phases' medians need not add up
to the cycle's.
"""


def _proposer_table(name: str, measured: list[dict], result: dict) -> str:
    depth = result["depth"]
    heads = " | ".join(f"s{place}" for place in range(1, depth + 1))
    lines = [
        f"### {name}\n",
        f"| topology | contract | domain | cycles | {heads} | E[Y] | propose | target | reconcile "
        "| overhead | cycle |",
        "|---|---|---|---:|" + "---:|" * (depth + 6),
    ]
    for entry in measured:
        if entry["proposer"] == name:
            lines += _rows(entry)
    return "\n".join(lines) + "\n"


def _rows(entry: dict) -> list[str]:
    took = entry["median_s"]
    times = [f"{1e3 * took[phase]:.1f}" for phase in took]
    rows = []
    for place, (domain, found) in enumerate(entry["domains"].items()):
        first = [entry["topology"], entry["label"]] if place == 0 else ["", ""]
        rates = [
            _with_error(rate, error)
            for rate, error in zip(found["survival"], found["survival_se"], strict=True)
        ]
        expected = _with_error(found["tokens_per_cycle"], found["tokens_per_cycle_se"])
        own_times = times if place == 0 else [""] * len(times)
        cells = [*first, domain, str(found["cycles"]), *rates, expected, *own_times]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _with_error(value: float, error: float) -> str:
    return f"{value:.2f} ±{error:.2f}"


def _same(entries: list[dict]) -> str:
    lines = [
        "On a chain, and where every candidate is a point mass, several names are one rule;\n"
        "a test serves both and compares every cycle.\n",
        "| proposer | topology | contracts | measured as |",
        "|---|---|---|---|",
    ]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for entry in entries:
        if entry.get("measured_as", entry["contract"]) != entry["contract"]:
            key = (entry["proposer"], entry["topology"], entry["measured_as"])
            groups.setdefault(key, []).append(entry["contract"])
    for (proposer, topology, measured_as), names in groups.items():
        lines.append(f"| {proposer} | {topology} | {', '.join(names)} | {measured_as} |")
    return "\n".join(lines) + "\n"


def _tests(entries: list[dict]) -> str:
    lines = [
        "Exact contracts: whole texts of the serving loop against the enumerated law (chi-square)\n"
        "or, greedy, against the plain text token for token. Relaxed ones: shown to differ.\n",
        "| proposer | topology | contract | test |",
        "|---|---|---|---|",
    ]
    for entry in entries:
        for test in entry.get("tests", ()):
            where = (entry["proposer"], entry["topology"], entry["label"])
            lines.append(f"| {' | '.join(where)} | `{test}` |")
    return "\n".join(lines) + "\n"


def _refused(entries: list[dict]) -> str:
    lines = ["| proposer | topology | contract | reason |", "|---|---|---|---|"]
    for entry in entries:
        if "refused" in entry:
            where = (entry["proposer"], entry["topology"], entry["label"])
            lines.append(f"| {' | '.join(where)} | {'; '.join(entry['refused'])} |")
    return "\n".join(lines) + "\n"
