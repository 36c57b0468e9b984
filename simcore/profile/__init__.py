"""What was measured: the profile's schema and its store."""
