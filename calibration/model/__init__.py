"""Decoder-only models of the Llama family in plain torch: shapes, weights, one forward."""
