"""The documents a user writes, their loading, presets and located errors."""
