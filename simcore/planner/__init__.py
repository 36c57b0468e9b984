"""From simulations to a decision: speed-up, break-even, the plan."""
