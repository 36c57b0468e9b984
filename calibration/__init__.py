"""Measures real draft-verify cycles of a real model and writes them down as a profile."""

from calibration.environment import prepare_environment

prepare_environment()
