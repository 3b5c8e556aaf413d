"""When things run: jobs, sensors and how a run tells of itself."""
