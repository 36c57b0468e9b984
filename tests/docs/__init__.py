"""Pages of docs/ that follow from the code: the reference and the tutorial's outputs."""
