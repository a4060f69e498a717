"""cann-plan: capacity planner for training and serving large models on Ascend and GPU clusters."""

__version__ = "0.1.0"
