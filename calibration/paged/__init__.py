"""Paged KV: block numbers and tensors for the block counts that simcore's ledger keeps."""
