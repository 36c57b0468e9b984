"""Who asks: arrival times, token counts, and which recorded request each one follows."""
