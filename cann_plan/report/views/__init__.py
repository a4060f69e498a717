"""One view per document: how its JSON is laid out for people."""
