"""One file per command. `compare_topologies.py` is the command `compare-topologies`; a new file is a new command.

A file defines either a function `command` (a Typer command; its docstring is the help) or `app` (a `typer.Typer` with
sub-commands), and imports the planner only inside that function, so that `--help` and completion stay fast.
"""
