"""How the dashboard is started."""

import subprocess
import sys

from app.launch import ENTRY, server_options


def test_the_server_listens_where_it_is_told_and_sends_nothing():
    options = server_options("127.0.0.1", 8765)
    assert options[:2] == ["run", str(ENTRY)]
    assert "--server.address=127.0.0.1" in options
    assert "--server.port=8765" in options
    assert "--browser.gatherUsageStats=false" in options
    assert "--server.maxUploadSize=20" in options
    assert "--server.fileWatcherType=none" in options


def test_a_missing_streamlit_is_one_sentence():
    program = "import sys; sys.modules['streamlit'] = None; from app.launch import launch; "
    done = subprocess.run(
        [sys.executable, "-c", program + "sys.exit(launch())"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "specplan[app]" in done.stderr
    assert "Traceback" not in done.stderr
