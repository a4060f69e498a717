"""Results to terminal, JSON, CSV, Markdown and other formats."""
