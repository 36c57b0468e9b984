"""The parts of the closed form under load: cycles, steps, limits, queue."""
