"""The dashboard as a server of its own on a free port, and the Chromium that looks at it."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")
CHROMIUM_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START_TIMEOUT_S = 60
POLL_S = 0.05


@contextmanager
def served(data: Path) -> Iterator[str]:
    """Its address once it answers; it keeps what it saves under `data`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "app", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"SPECPLAN_DATA": str(data)},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_healthy(url, server)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait_until_healthy(url: str, server: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until_s:
        assert server.poll() is None, "the server ended before it answered"
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_S)
    raise AssertionError(f"no answer from {url} after {START_TIMEOUT_S} s")


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Headless; playwright is imported where there is a browser to start."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(CHROMIUM_ARGUMENTS), headless=True
        )
        yield browser
        browser.close()
