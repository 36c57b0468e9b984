"""The version that every result carries."""

from importlib.metadata import PackageNotFoundError, version


def specplan_version() -> str:
    """The installed version, or 'unknown' in a tree that was never installed."""
    try:
        return version("specplan")
    except PackageNotFoundError:
        return "unknown"
