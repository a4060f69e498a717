"""Model to operators: parameters, FLOPs, bytes and activations."""
