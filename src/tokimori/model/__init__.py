"""Jobs, runs, policies and the rules about them: values and pure functions."""
