"""The store in this process's memory: the reference for every other store, and a double for tests."""
