"""The protocol as data: design, scale, deviations and rule ids. No Dagster, no frames, no disk."""
