"""What happened, told to whoever listens: one frozen value for each kind of event."""
