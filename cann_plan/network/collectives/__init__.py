"""Closed forms of collective algorithms: alpha, beta and gamma terms, array-valued."""
