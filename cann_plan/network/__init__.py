"""Topology to the time of a collective."""
