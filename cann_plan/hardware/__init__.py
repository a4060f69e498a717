"""Device to the time of an operator."""
