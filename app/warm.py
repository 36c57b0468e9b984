"""What a server does before it answers, so that its first visitor waits no longer than the next."""

import gc
from importlib import import_module
from pathlib import Path

SECTIONS = "*_section.py"


def warm_up() -> None:
    """Import what the pages need, then hide it from the garbage collector.

    Streamlit collects garbage after every run of a page. Looking through the libraries took 0.15 s
    each time, and nothing else ran meanwhile; they stay until the server ends anyway.
    """
    for section in sorted(Path(__file__).parent.glob(SECTIONS)):
        import_module(f"app.{section.stem}")
    gc.collect()
    gc.freeze()
