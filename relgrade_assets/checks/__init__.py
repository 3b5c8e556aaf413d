"""The asset checks: schemas and gates, shown to people. What they show is decided by methods and io."""
