"""What users feel and what it cost: every metric is defined in docs/reference/metrics.md."""
