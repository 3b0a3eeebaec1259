"""Guards of the promises, each taken out once to see that a test fails without it."""
