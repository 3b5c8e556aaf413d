"""The command line: it reads arguments, calls io and methods, and tells people. Only run.py reaches the graph."""
