"""Profiles that specplan ships, one folder each."""
