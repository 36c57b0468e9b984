"""The serving loop predicted before it runs: workload, prediction, measurement, comparison."""
