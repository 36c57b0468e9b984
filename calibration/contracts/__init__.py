"""Verification: which drafted tokens are kept and what the target adds, by contract."""
