"""JSON as other programs write it: bare Infinity and NaN are read, a key given twice is not."""

import json
from typing import Any


class RepeatedKeyError(ValueError):
    """A key stands twice in one object: which one is meant?"""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's pairs as a dict. Raises RepeatedKeyError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise RepeatedKeyError(f"the key {twice!r} stands twice in one object")
    return found


DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
