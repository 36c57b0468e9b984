"""`python -m calibration`: the package sets the environment before torch is imported."""

import importlib.util
import sys

BAD_INPUT_EXIT_CODE = 2

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
    sys.stderr.write(
        "calibration: torch and transformers are not installed; expected the calibration extra: "
        "pip install -e '.[calibration]', or make test, which installs every extra\n"
    )
    sys.exit(BAD_INPUT_EXIT_CODE)

from calibration.cli import main  # noqa: E402 - only where it can be imported

main()
