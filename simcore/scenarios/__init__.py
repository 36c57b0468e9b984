"""Scenarios that specplan ships, one YAML file each."""
