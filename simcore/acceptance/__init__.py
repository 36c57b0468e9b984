"""How drafts survive verification: arithmetic, recorded traces, and the models that replay them."""
