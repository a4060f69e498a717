"""Layer kinds as ordered lists of operators, vectorised over the rows of a layer table."""
