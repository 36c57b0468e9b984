"""The errors that calibration raises on purpose."""

from simcore.errors import SpecplanError


class CalibrationError(SpecplanError):
    """A measurement cannot start or go on as asked: got, expected, what to do."""


class TargetFailureError(CalibrationError):
    """The target could not finish a pass; its replica has failed and comes back empty."""
