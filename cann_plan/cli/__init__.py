"""The command line: parse, call the planner, render."""
