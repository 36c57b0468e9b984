"""The version that every result carries."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def specplan_version() -> str:
    """The installed version, or 'unknown' in a tree that was never installed."""
    try:
        return version("specplan")
    except PackageNotFoundError:
        return "unknown"
