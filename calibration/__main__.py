"""`python -m calibration`: the package sets the environment before torch is imported."""

from calibration.cli import main

main()
