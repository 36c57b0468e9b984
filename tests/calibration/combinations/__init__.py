"""Proposer x topology x contract: which fit together, what each does on a real target."""
