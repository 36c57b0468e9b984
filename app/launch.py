"""Start the dashboard's server in this process."""

import sys
from pathlib import Path

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8501
ENTRY = Path(__file__).with_name("streamlit_app.py")
NOT_INSTALLED_EXIT_CODE = 2


def server_options(host: str, port: int) -> list[str]:
    """Streamlit's command line: loopback unless told otherwise, nothing sent anywhere."""
    settings = {
        "server.address": host,
        "server.port": str(port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "server.maxUploadSize": "20",  # MB
        # Streamlit's own, which a file in its user's home folder or here could turn off.
        "server.enableXsrfProtection": "true",
        "server.enableCORS": "true",
        "server.enableStaticServing": "false",
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "type",  # details of a fault go to the log, not to the page
    }
    return ["run", str(ENTRY), *(f"--{name}={value}" for name, value in settings.items())]


def launch(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> int:
    """Serve until interrupted; returns the exit code."""
    try:
        from streamlit.web import cli  # noqa: PLC0415  the rest of app/ is importable without it
    except ImportError:
        sys.stderr.write("specplan: the dashboard needs streamlit; pip install 'specplan[app]'\n")
        return NOT_INSTALLED_EXIT_CODE
    from app.warm import warm_up  # noqa: PLC0415  likewise

    warm_up()
    try:
        cli.main(args=server_options(host, port), prog_name="streamlit", standalone_mode=False)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return 0
