"""Serving for real: simcore's scheduler plans each step, a torch engine carries it out."""
