"""Files other tools use, turned into plans and models."""
