"""Prompts of public data sets that lie beside the project; their texts stay there."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from calibration.errors import CalibrationError

SHARED_WORDS = 12  # as many words in a row make two prompts the same


@dataclass(frozen=True)
class DataSet:
    """A file of questions, and the domain of the calibration that a user would take it for."""

    path: str
    key: str  # of a question's number; "": its line
    domain: str
    categories: tuple[str, ...] = ()  # none: all


DATA_SETS = {
    "mt_bench": DataSet("mt_bench/question.jsonl", "question_id", "chat"),
    "gsm8k": DataSet("gsm8k/test.jsonl", "", "chat"),
    "humaneval": DataSet("humaneval/HumanEval.jsonl.gz", "task_id", "code"),
    "spec_bench": DataSet(
        "spec_bench/question.jsonl", "question_id", "chat", ("translation", "summarization", "qa")
    ),
}


@dataclass(frozen=True)
class Question:
    """One prompt."""

    source: str
    number: str
    text: str

    @property
    def sha256(self) -> str:
        """Of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_questions(data: Path) -> list[Question]:
    """The data sets take turns, so that the mix is the same wherever the list is cut."""
    by_source = [list(_questions(data, name)) for name in DATA_SETS]
    longest = max(map(len, by_source))
    return [rows[place] for place in range(longest) for rows in by_source if place < len(rows)]


def check_disjoint(texts: Iterable[str], calibrated: Iterable[str]) -> None:
    """Raise CalibrationError where a prompt shares a passage with one that was calibrated on."""
    seen = {run for text in calibrated for run in word_runs(text)}
    for text in texts:
        if not seen.isdisjoint(word_runs(text)):
            raise CalibrationError(
                f"the prompt {text[:40]!r} shares {SHARED_WORDS} words in a row with a prompt of "
                "the calibration; expected other prompts: a prediction is tested on what was not "
                "measured"
            )


def _questions(data: Path, source: str) -> Iterator[Question]:
    chosen = DATA_SETS[source]
    try:
        raw = (data / chosen.path).read_bytes()
    except OSError as error:
        raise CalibrationError(
            f"cannot read {chosen.path} ({error.strerror}); expected the folder of public data "
            "sets: pass it as --data"
        ) from error
    text = gzip.decompress(raw) if chosen.path.endswith(".gz") else raw
    for number, line in enumerate(text.decode().splitlines()):
        entry = json.loads(line)
        if chosen.categories and entry["category"] not in chosen.categories:
            continue
        asked = entry.get("question") or entry.get("prompt") or entry["turns"][0]
        yield Question(source, str(entry.get(chosen.key, number)), asked)


def word_runs(text: str) -> set[tuple[str, ...]]:
    """Every run of so many words; the whole text where it is shorter."""
    words = text.lower().split()
    last = max(1, len(words) - SHARED_WORDS + 1)
    return {tuple(words[begin : begin + SHARED_WORDS]) for begin in range(last)}
