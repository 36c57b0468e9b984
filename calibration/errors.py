"""The error that calibration raises on purpose."""

from simcore.errors import SpecplanError


class CalibrationError(SpecplanError):
    """A measurement cannot start or go on as asked: got, expected, what to do."""
