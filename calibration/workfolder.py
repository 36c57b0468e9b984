"""Partial results of a long measurement, so that a killed run goes on where it stopped.

One folder next to the output, named by a hash of everything that the results depend on; one JSON
file per finished piece, written whole or not at all.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any


class WorkFolder:
    """Finished pieces by name."""

    def __init__(self, output: Path, settings: dict[str, Any], *, resume: bool) -> None:
        text = json.dumps(settings, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        self.path = output.parent / f".{output.name}-work-{key}"
        if not resume:
            shutil.rmtree(self.path, ignore_errors=True)

    def load(self, piece: str) -> Any | None:
        """What was saved under `piece`, or None."""
        path = self._file(piece)
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def save(self, piece: str, content: Any) -> None:
        """Keep `content`; a run killed meanwhile leaves no half file."""
        path = self._file(piece)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(content), encoding="utf-8")
        unfinished.replace(path)

    def remove(self) -> None:
        """Forget everything: the profile is written."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _file(self, piece: str) -> Path:
        return self.path / f"{piece}.json"
