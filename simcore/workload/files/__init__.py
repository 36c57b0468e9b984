"""Recorded requests and lengths from files; every format becomes the same checked table."""

from simcore.workload.files.formats import FORMATS, read_requests
from simcore.workload.files.length_table import read_lengths

__all__ = ["FORMATS", "read_lengths", "read_requests"]
