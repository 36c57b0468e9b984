"""How the dashboard is started."""

import os
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


def test_settings_of_a_folder_cannot_open_the_server_to_other_sites(tmp_path):
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text(
        "[server]\nenableXsrfProtection = false\nenableCORS = false\nenableStaticServing = true\n"
    )
    program = (
        "import sys; from unittest.mock import patch; from streamlit import config; "
        "from streamlit.web import bootstrap; from app.launch import launch; "
        "names = ('enableXsrfProtection', 'enableCORS', 'enableStaticServing'); "
        "show = lambda *_: print(*(config.get_option(f'server.{name}') for name in names)); "
        "patch('app.warm.warm_up', lambda: None).start(); "
        "patch.object(bootstrap, 'run', show).start(); sys.exit(launch())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ENTRY.parents[1])},
    )
    assert done.stdout.split() == ["True", "True", "False"], done.stderr


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
