"""Pure, array-valued cost models of compute, communication, memory and pipelines."""
