"""Strategy space, evaluation, search, sizing, checks and validation."""
