"""Plans turned into the files other tools use."""
