"""One small file per way to propose drafts, behind one protocol."""
