"""The report: one self-contained page an experiment and round, in a private and a public version (P40, P41, P46)."""
