"""`python -m calibration.validation`: the package sets the environment before torch is imported."""

from calibration.validation.cli import main

main()
